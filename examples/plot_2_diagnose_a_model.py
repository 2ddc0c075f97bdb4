"""
Diagnose a model before and after
=================================

`diagnose` says from the calibration rows alone where one threshold will miss; `audit` says from test rows where
intervals did.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import RandomForestRegressor

from evencover import BySpread, ConformalRegressor, Normalized, Rows, audit, diagnose
from evencover.models import WithSpread, predictions_of
from evencover.plots import STYLE, plot_diagnosis, plot_group_coverages
from evencover.synthetic import heteroskedastic

plt.rcParams.update(STYLE)

# %%
# A model that knows no spread
# ----------------------------
#
# A random forest predicts a center. `WithSpread` learns beside it how far off it tends to be.

data, fresh, test = (heteroskedastic(6000, seed=seed) for seed in (0, 1, 2))
forest = RandomForestRegressor(n_estimators=30, min_samples_leaf=5, random_state=0)
model = ConformalRegressor(WithSpread(forest, random_state=0), random_state=0).fit(data.X, data.y)

# %%
# Before any test row
# -------------------
#
# The verdict, what it rests on, and what to do.

diagnosis = diagnose(model)
print(diagnosis)

# %%
# On the left, the scores of each group: at the threshold, the dotted vertical line, they lie at different heights. On
# the right, the coverage that follows for rows to come.

_, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
plot_diagnosis(diagnosis, ax=left)
plot_group_coverages(diagnosis, ax=right)
plt.show()

# %%
# After
# -----
#
# The model stays as it is; only the calibration is done anew, by the score of the advice, on fresh rows since the old
# ones chose it. Test rows show what came of it.

before = model.predict_interval(test.X, level=0.9)
model.set_params(nonconformity=Normalized()).calibrate(fresh.X, fresh.y)
after = model.predict_interval(test.X, level=0.9)
levels = BySpread(3).learn(Rows(predictions_of(model.estimator_, test.X)))

_, panels = plt.subplots(1, 2, figsize=(9.6, 3), sharex=True, layout="constrained")
judged = {"distance": before, "distance over spread": after}
for ax, (name, intervals) in zip(panels, judged.items(), strict=True):
    found = audit(test.y, intervals, X=test.X, groups=levels)
    plot_group_coverages(found, ax=ax)
    ax.set_title(f"{name}: {found.verdict}")
plt.show()
