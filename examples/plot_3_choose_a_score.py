"""
Choose a score and its groups
=============================

A score that divides by the spread, thresholds for each noise level, or both? `recommend` tries them on training rows
and takes the narrowest intervals that are even.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor

from evencover import audit, recommend
from evencover.plots import BLUE, STYLE, VERMILION, plot_group_coverages
from evencover.synthetic import heteroskedastic

plt.rcParams.update(STYLE)

# %%
# What was tried
# --------------
#
# Each score is tried with one threshold and with several, on predictions for rows that the model was not fitted on.

training, fresh, test = (heteroskedastic(4000, seed=seed) for seed in (0, 1, 2))
boosting = HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=8, random_state=0)
model = recommend(boosting, training.X, training.y, level=0.9)
print(model.recommendation_)

# %%
# With the plain distance, one threshold gives the widest intervals, and uneven ones.

candidates = model.recommendation_.candidates
_, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
for y, each in enumerate(candidates):
    color, marker = (BLUE, "o") if each.verdict == "even" else (VERMILION, "D")
    size = 9 if each is model.recommendation_.chosen else 5
    ax.plot(each.width, y, marker, color=color, ms=size)
names = [f"{type(each.nonconformity).__name__}, {each.taxonomy}" for each in candidates]
ax.set_yticks(range(len(names)), names)
ax.invert_yaxis()
ax.set(xlabel="mean width out of fold", title="circles: even; diamond: not; large: chosen")
plt.show()

# %%
# Calibrated on fresh rows
# ------------------------
#
# The choice has used the training rows, so the thresholds come from others. Test rows say whether it was a good one.

model.calibrate(fresh.X, fresh.y)
found = audit(test.y, model.predict_interval(test.X, level=0.9), X=test.X)
print(found)

# %%

_, ax = plt.subplots(figsize=(7, 2.8), layout="constrained")
plot_group_coverages(found, ax=ax)
plt.show()
