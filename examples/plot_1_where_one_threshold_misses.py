"""
Where one threshold misses
==========================

One threshold for all rows covers 90 % of the targets on average. If the noise differs from row to row, it covers
nearly every row with low noise and misses many rows with high noise. One threshold per noise level fixes this.
"""

import matplotlib.pyplot as plt
import numpy as np

from evencover import BySpread, Rows, audit, calibrate
from evencover.plots import BLUE, GREY, STYLE, VERMILION, plot_group_coverages, plot_intervals
from evencover.synthetic import heteroskedastic

plt.rcParams.update(STYLE)

# %%
# Data whose noise grows tenfold
# ------------------------------
#
# The model here is the oracle: it knows the true mean and the true spread of every row. So the errors below do not come
# from the model.

old, new = heteroskedastic(12_000, seed=0), heteroskedastic(12_000, seed=1)

# %%
# Two calibrations
# ----------------
#
# Both use the distance from the center as the score. The first has one threshold. The second has one threshold for each
# of three noise levels, which are learned from the calibration rows.

one = calibrate(old.y, old.oracle()).interval(new.oracle(), level=0.9)

taxonomy = BySpread(3)
calibration = calibrate(old.y, old.oracle(), groups=taxonomy.learn(Rows(old.oracle())))
levels = taxonomy.assign(Rows(new.oracle()))
three = calibration.interval(new.oracle(), groups=levels, level=0.9)

# %%
# The intervals
# -------------
#
# With one threshold the band has a constant width. It is too wide on the left and too narrow on the right.

rows = np.argsort(new.spread)[::12]
spread, residual = new.spread[rows], (new.y - new.mean)[rows]
_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.scatter(spread, residual, s=5, color=GREY, alpha=0.5, linewidths=0)
for intervals, color, line, name in (
    (one, VERMILION, "--", "one threshold"),
    (three, BLUE, "-", "one per noise level"),
):
    ax.plot(spread, (intervals.lower - new.mean)[rows], line, color=color)
    ax.plot(spread, (intervals.upper - new.mean)[rows], line, color=color, label=name)
ax.set(xlabel="noise of the row (standard deviation)", ylabel="target minus prediction")
ax.set_title("90 % intervals")
ax.legend(loc="upper left")
plt.show()

# %%
# The coverage
# ------------
#
# The figure shows 200 of the rows, sorted by noise. Diamonds are targets outside their interval. With one threshold
# most of them are on the right.

_, panels = plt.subplots(1, 2, figsize=(9.6, 3.6), sharey=True, layout="constrained")
for ax, (name, intervals) in zip(panels, {"one threshold": one, "one per noise level": three}.items(), strict=True):
    plot_intervals(new.y, intervals, new.spread, ax=ax)
    ax.set(title=name, xlabel="rows, from low to high noise")
plt.show()

# %%
# Both cover about 90 % of all rows. `audit` tests each noise level separately.

_, panels = plt.subplots(1, 2, figsize=(9.6, 3), sharex=True, layout="constrained")
audited = {"one threshold": one, "one per noise level": three}
for ax, (name, intervals) in zip(panels, audited.items(), strict=True):
    result = audit(new.y, intervals, groups=levels)
    plot_group_coverages(result, ax=ax)
    ax.set_title(f"{name}: {result.verdict}")
    print(f"{name:20}{result.overall.coverage:.3f} of all rows")
plt.show()
