"""
Choose a score and its groups
=============================

Should the score be divided by the spread, should each noise level have its own threshold, or both? `recommend`
evaluates these candidates on training rows. Of those with even coverage, it selects the one with the lowest
interval score: the width, plus a penalty for missed targets.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor

from evencover import audit, recommend
from evencover.plots import BLUE, STYLE, VERMILION, plot_group_coverages
from evencover.synthetic import heteroskedastic

plt.rcParams.update(STYLE)

# %%
# The candidates
# --------------
#
# Each score is evaluated with one threshold and with several, on out-of-fold predictions of the training rows.

training, fresh, test = (heteroskedastic(4000, seed=seed) for seed in (0, 1, 2))
boosting = HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=8, random_state=0)
model = recommend(boosting, training.X, training.y, level=0.9)
print(model.recommendation_)

# %%
# With the plain distance, one threshold has the highest interval score, and its coverage is uneven.

candidates = model.recommendation_.candidates
_, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
for y, candidate in enumerate(candidates):
    color, marker = (BLUE, "o") if candidate.verdict == "even" else (VERMILION, "D")
    size = 9 if candidate is model.recommendation_.chosen else 5
    ax.plot(candidate.interval_score, y, marker, color=color, ms=size)
names = [f"{type(candidate.nonconformity).__name__}, {candidate.taxonomy}" for candidate in candidates]
ax.set_yticks(range(len(names)), names)
ax.invert_yaxis()
ax.set(xlabel="interval score, out of fold", title="circle: even; diamond: not even; large: selected")
plt.show()

# %%
# Calibration on new rows
# -----------------------
#
# The training rows were used for the choice, so the thresholds are computed from other rows. Test rows show the
# coverage.

model.calibrate(fresh.X, fresh.y)
result = audit(test.y, model.predict_interval(test.X, level=0.9), X=test.X)
print(result)

# %%

_, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
plot_group_coverages(result, ax=ax)
plt.show()
