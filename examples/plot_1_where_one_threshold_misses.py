"""
Where one threshold misses
==========================

One threshold for all rows covers 90 % of the targets on average. Where the noise differs from row to row it covers
nearly every quiet row and misses many of the noisy ones. One threshold for each noise level mends that.
"""

import matplotlib.pyplot as plt
import numpy as np

from evencover import BySpread, Rows, audit, calibrate
from evencover.plots import BLUE, GREY, STYLE, VERMILION, plot_group_coverages, plot_intervals
from evencover.synthetic import heteroskedastic

plt.rcParams.update(STYLE)

# %%
# A world whose noise grows tenfold
# ---------------------------------
#
# The model here is the oracle: it knows the mean and the spread of every row. What goes wrong below is not its fault.

old, new = heteroskedastic(12_000, seed=0), heteroskedastic(12_000, seed=1)

# %%
# Two calibrations
# ----------------
#
# Both use the distance from the center as the score. The first has one threshold, the second one for each of three
# noise levels, learned from the calibration rows.

one = calibrate(old.y, old.oracle()).interval(new.oracle(), level=0.9)

taxonomy = BySpread(3)
calibration = calibrate(old.y, old.oracle(), groups=taxonomy.learn(Rows(old.oracle())))
levels = taxonomy.assign(Rows(new.oracle()))
three = calibration.interval(new.oracle(), groups=levels, level=0.9)

# %%
# The intervals
# -------------
#
# The band of one threshold has one width: too wide on the left, too narrow on the right.

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
# What they cover
# ---------------
#
# Two hundred of the rows, sorted by their noise. Diamonds are missed: with one threshold they gather on the right.

_, panels = plt.subplots(1, 2, figsize=(9.6, 3.6), sharey=True, layout="constrained")
for ax, (name, intervals) in zip(panels, {"one threshold": one, "one per noise level": three}.items(), strict=True):
    plot_intervals(new.y, intervals, new.spread, ax=ax)
    ax.set(title=name, xlabel="rows, from the quietest to the noisiest")
plt.show()

# %%
# Both cover nine in ten of all rows. `audit` looks at each noise level by itself.

_, panels = plt.subplots(1, 2, figsize=(9.6, 3), sharex=True, layout="constrained")
judged = {"one threshold": one, "one per noise level": three}
for ax, (name, intervals) in zip(panels, judged.items(), strict=True):
    found = audit(new.y, intervals, groups=levels)
    plot_group_coverages(found, ax=ax)
    ax.set_title(f"{name}: {found.verdict}")
    print(f"{name:20}{found.overall.coverage:.3f} of all rows")
plt.show()
