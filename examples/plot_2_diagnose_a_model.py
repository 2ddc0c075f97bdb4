"""
Diagnose a model before and after
=================================

`diagnose` uses only the calibration rows to find the groups in which one threshold will have the wrong coverage.
`audit` measures the coverage on test rows.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor

from evencover import BySpread, ConformalRegressor, Normalized, Rows, audit, diagnose
from evencover.models import WithSpread, predictions_of
from evencover.plots import STYLE, plot_diagnosis, plot_group_coverages
from evencover.synthetic import heteroskedastic

plt.rcParams.update(STYLE)

# %%
# A model without a spread
# ------------------------
#
# A random forest predicts a center. `WithSpread` also learns a spread, from the errors of the forest.

data, fresh, test = (heteroskedastic(6000, seed=seed) for seed in (0, 1, 2))
forest = RandomForestRegressor(n_estimators=30, min_samples_leaf=5, random_state=0)
model = ConformalRegressor(WithSpread(forest, random_state=0), random_state=0).fit(data.X, data.y)

# %%
# Before: the diagnosis
# ---------------------
#
# It shows the expected coverage of each group, the tests, the verdict and advice.

diagnosis = diagnose(model)
print(diagnosis)

# %%
# Left: the empirical CDF of the scores in each group. The dotted vertical line is the threshold. There the curves have
# different heights. Right: the heights are the expected coverages of new rows.

_, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
plot_diagnosis(diagnosis, ax=left)
plot_group_coverages(diagnosis, ax=right)
plt.show()

# %%
# After: the audit
# ----------------
#
# The model does not change. It is calibrated again with the score that was recommended. This uses new rows, because
# the old calibration rows were used to choose the score. Test rows show the result.

before = model.predict_interval(test.X, level=0.9)
model.set_params(nonconformity=Normalized()).calibrate(fresh.X, fresh.y)
after = model.predict_interval(test.X, level=0.9)
levels = BySpread(3).learn(Rows(predictions_of(model.estimator_, test.X)))

_, panels = plt.subplots(1, 2, figsize=(9.6, 3), sharex=True, layout="constrained")
audited = {"distance": before, "distance over spread": after}
for ax, (name, intervals) in zip(panels, audited.items(), strict=True):
    result = audit(test.y, intervals, X=test.X, groups=levels)
    plot_group_coverages(result, ax=ax)
    ax.set_title(f"{name}: {result.verdict}")
plt.show()
