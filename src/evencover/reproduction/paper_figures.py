"""The paper's synthetic figures, each drawn anew from the worlds."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from evencover._internal.arrays import FloatArray, IntArray
from evencover._internal.optional import import_optional
from evencover.plots import (
    BLACK,
    BLUE,
    BY_NOISE,
    GREEN,
    GREY,
    LINES,
    MARKERS,
    PURPLE,
    STYLE,
    VERMILION,
    new_figure,
    picture_files,
    plot_coverages,
    plot_score_cdfs,
)
from evencover.predictions import Prediction
from evencover.quantiles import conformal_quantile, conformal_rank
from evencover.reproduction.coverage_tables import papers_calibration
from evencover.reproduction.exact_coverages import pooled_coverage
from evencover.reproduction.scenarios import GROUPS, SCORES, TYPES, VARIANTS, coverages
from evencover.reproduction.simulation import LEVEL, Tally, check_repeats, seed_of, thirds
from evencover.scores import Residual
from evencover.synthetic.data import Sample, toy, two_modes, two_subgroups, unit_square
from evencover.synthetic.misspecification import QuadraticVariance, misspecified
from evencover.theory.families import TRIANGULAR

REPEATS = 100
_SEED = 13
_TICKS = {("as written", "μ-shifted σ"): "μ-shifted N(0, 0.01σ²)"}  # where the name would be untrue
_GROUP_NAMES = tuple(f"{name} estimated variance" for name in GROUPS)


def write_figures(folder: Path, *, repeats: int = REPEATS) -> Iterator[Path]:
    """Write every figure as PNG and SVG, and yield the paths as they are written.

    Parameters
    ----------
    folder : Path
        Where to; made if it is not there.
    repeats : int
        Repeats of the coverage figures; the paper has 10.
    """
    check_repeats(repeats)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output must be a folder; {folder} is a file")
    matplotlib = import_optional("matplotlib", extra="plots", purpose="a figure")
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in figures(repeats).items():
        with matplotlib.rc_context(dict(STYLE)):
            files = picture_files(draw())
        for ending, content in files.items():
            path = folder / f"{name}.{ending}"
            path.write_bytes(content)
            yield path


def figures(repeats: int = REPEATS) -> dict[str, Callable[[], Any]]:
    """Return a function that draws each figure, by name."""
    return {
        "two_subgroups": subgroups_figure,
        "two_taxonomies": taxonomies_figure,
        "triangular_density": triangular_figure,
        "variance_cdf": variance_cdf_figure,
        "variance_comparison": variance_comparison_figure,
        "score_cdfs": score_cdfs_figure,
        "coverage_types_1_to_3": lambda: types_figure("as run", repeats),
        "coverage_types_1_to_3_as_written": lambda: types_figure("as written", repeats),
        "coverage_type_4": lambda: two_modes_figure(repeats),
    }


def subgroups_figure() -> Any:
    """The introduction's example: one residual threshold for a quiet and a noisy subgroup."""
    world = two_subgroups()
    sample = world.sample(20, seed=_SEED)
    threshold = float(conformal_quantile(Residual()(sample.y, sample.oracle()), 0.8))
    covered = Residual().interval(threshold, sample.oracle()).covers(sample.y)
    x = np.array([0.0, 10.0])
    ends = [np.column_stack([x, [group, group]]) for group in (0, 1)]  # of each subgroup's line
    quiet, noisy = (float(world.law.spread(end)[0]) for end in ends)
    figure, ((ax,),) = new_figure(1, 1, size=(6.4, 3.8))
    kinds = (("quiet", quiet, BLUE, "o"), ("noisy", noisy, VERMILION, "s"))
    for group, (name, spread, color, marker) in enumerate(kinds):
        rows, mean = sample.X[:, 1] == group, world.law.mean(ends[group])
        here = 1 - 2 * norm.sf(threshold / spread)
        average = pooled_coverage(spread, (quiet, noisy), each=10, rank=conformal_rank(20, 0.8))
        ax.fill_between(x, mean - threshold, mean + threshold, color=color, alpha=0.15, lw=0)
        ax.plot(x, mean, color=color, lw=1)
        counts = f"{covered[rows].sum()} of {rows.sum()} covered"
        label = f"{name}, σ = {spread:g}: {counts}; of new rows {here:.3f} (over many such sets {average:.3f})"
        ax.plot(sample.X[rows, 0], sample.y[rows], marker, color=color, ms=5, label=label)
    ax.set(xlabel="x", ylabel="y", title="One residual threshold, level 0.8, calibrated on these 20 points")
    ax.legend(loc="upper left")
    ax.set_ylim(top=ax.get_ylim()[1] + 0.9)
    return figure


def taxonomies_figure() -> Any:
    """The unit square, divided by a feature and by the spread."""
    figure, axes = new_figure(1, 2, size=(6.6, 3.9), sharey=True)
    sample = unit_square().sample(600, seed=_SEED)
    x2 = sample.X[:, 1]
    by_feature, by_spread = x2 > 0.2, sample.spread > np.sqrt(1.25)  # the median: |x₂ − 0.5| = 0.25
    panels = (
        (by_feature, (0.2,), "by a feature, at ξ = 0.2", ("$x_2$ ≤ 0.2", "$x_2$ > 0.2"), (GREEN, PURPLE)),
        (by_spread, (0.25, 0.75), "by the spread, two equal halves", ("low spread", "high spread"), (BLUE, VERMILION)),
    )
    for ax, (high, edges, title, names, colors) in zip(axes[0], panels, strict=True):
        for rows, name, color, marker in zip((~high, high), names, colors, ("o", "^"), strict=True):
            ax.scatter(*sample.X[rows].T, s=10, color=color, marker=marker, lw=0, label=name, clip_on=False)
        for edge in edges:
            ax.axhline(edge, color=BLACK, lw=1)
        ax.set(xlabel="$x_1$", title=title, xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    axes[0, 0].set_ylabel("$x_2$")
    return figure


def triangular_figure() -> Any:
    """The triangular density with λ = 5, and its mean and standard deviation."""
    width = 5.0
    mean, spread = 2 * width / 3, width / (3 * np.sqrt(2))
    figure, ((ax,),) = new_figure(1, 1, size=(5.6, 3.2))
    y = np.array([-1.0, 0.0, width, np.nextafter(width, 6.0), 6.0])
    ax.plot(y, TRIANGULAR.density(y, mean, spread), color=BLUE, lw=1.8, clip_on=False)
    ax.axvline(mean, color=GREY, lw=0.9, ls="--", label=f"mean 2λ/3 = {mean:.2f}")
    ax.axvspan(
        mean - spread, mean + spread, color=GREY, alpha=0.15, lw=0, label=f"mean ± σ, σ = λ/(3√2) = {spread:.2f}"
    )
    ax.set(xlabel="y", ylabel="density", title="$f(y) = 2y/λ^2$ on [0, λ], λ = 5", ylim=(0, 0.45))
    ax.legend(loc="upper left", fontsize=8)
    return figure


def variance_cdf_figure() -> Any:
    """The toy model's true variance, and its thirds."""
    _, oracle, _ = _toy()
    figure, ((ax,),) = new_figure(1, 1, size=(5.6, 3.4))
    variance = np.sort(_variance(oracle))
    share = np.arange(1, len(variance) + 1) / len(variance)
    codes = _thirds_of(variance)
    for code, color in enumerate(BY_NOISE):
        rows = codes == code
        ax.plot(variance[rows], share[rows], color=color, lw=3.2, ls=LINES[code], label=f"{GROUPS[code]} variance")
    for third, cut in zip((1 / 3, 2 / 3), thirds(variance[None, :])[0], strict=True):
        ax.plot([0, cut, cut], [third, third, 0], color=GREY, lw=0.8, ls=":")
        ax.annotate(f"{cut:.2f}", (cut, 0), xytext=(3, 3), textcoords="offset points", color=GREY)
    ax.set(xlabel="true variance", ylabel="share of rows", xlim=(0, None), ylim=(0, 1.01))
    ax.set_title("Toy model: thirds of the variance")
    ax.legend(loc="upper left")
    return figure


def variance_comparison_figure() -> Any:
    """The misspecified model's variance against the true one, by its own thirds."""
    _, oracle, wrong = _toy()
    figure, ((ax,),) = new_figure(1, 1, size=(5.6, 3.8))
    true, estimated = _variance(oracle), _variance(wrong)
    codes = _thirds_of(estimated)
    for code, color in enumerate(BY_NOISE):
        rows = codes == code
        points = {"s": 9, "lw": 0, "marker": MARKERS[code], "rasterized": True}
        ax.scatter(true[rows], estimated[rows], color=color, label=_GROUP_NAMES[code], **points)
    ends = np.array([true.min(), true.max()])
    ax.plot(ends, ends, color=BLACK, lw=1, ls="--", label="if it were right")
    ax.set(xlabel="true variance", ylabel="estimated variance", title="Groups of the misspecified model")
    ax.legend(loc="upper center")
    return figure


def score_cdfs_figure() -> Any:
    """The four plots of score distributions: two scores, oracle and misspecified model."""
    sample, oracle, wrong = _toy()
    figure, axes = new_figure(2, 2, size=(7.6, 6.0), sharey=True)
    for column, (model, said) in enumerate((("oracle", oracle), ("misspecified", wrong))):
        codes = _thirds_of(_variance(said))
        for row, name in enumerate(("residual", "normalised")):
            scores = SCORES[name](sample.y, said)
            grouped = {label: scores[codes == code] for code, label in enumerate(_GROUP_NAMES)}
            ax = axes[row, column]
            plot_score_cdfs(grouped, level=LEVEL, threshold=float(conformal_quantile(scores, LEVEL)), ax=ax)
            ax.set(
                title=f"({'acbd'[2 * column + row]}) {name} score, {model}", ylabel="" if column else "share of rows"
            )
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.suptitle(
        "Scores by group. Shaded: 95 % bands. Dotted: level 0.9, and the threshold of all rows", fontsize=9.5
    )
    return figure


def types_figure(variant: str, repeats: int) -> Any:
    """Coverage of three scores under each misspecification, for Types 1 to 3."""
    changes = VARIANTS[variant]
    rows = {
        make().name: coverages(make(), changes, repeats=repeats, seed=seed_of(_SEED, kind, variant))
        for kind, make in TYPES.items()
    }
    return _coverage_figure(rows, variant, f"misspecifications {variant}", repeats)


def two_modes_figure(repeats: int) -> Any:
    """Coverage in Type 4: what the paper calls the oracle, the true one, and a real mixture."""
    decided, coin = two_modes(), two_modes(coin=True)
    covered = partial(coverages, changes=VARIANTS["as run"], repeats=repeats, seed=seed_of(_SEED, "Type 4"))
    rows = {
        "mode by the mean,\nthe paper's oracle": covered(decided, oracle=coin),
        "mode by the mean,\ntrue mean and variance": covered(decided),
        "mode by a coin,\ntrue mean and variance": covered(coin),
    }
    return _coverage_figure(rows, "as run", "Type 4, misspecifications as run", repeats)


def _coverage_figure(
    rows: Mapping[str, Mapping[tuple[str, str], Tally]], variant: str, title: str, repeats: int
) -> Any:
    """Draw one row of panels for each world, one panel for each group."""
    changes = tuple(VARIANTS[variant])
    figure, axes = new_figure(len(rows), len(GROUPS), size=(11.0, 2.4 * len(rows) + 1.2), sharex=True, sharey=True)
    for line, (world, found) in zip(axes, rows.items(), strict=True):
        for code, ax in enumerate(line):
            drawn = [
                (score, found[change, score].coverage_by_repeat[:, code], i + 0.24 * (j - 1))
                for i, change in enumerate(changes)
                for j, score in enumerate(SCORES)
            ]
            plot_coverages(drawn, level=LEVEL, ax=ax)
            for i in range(0, len(changes), 2):
                ax.axvspan(i - 0.5, i + 0.5, color=GREY, alpha=0.07, lw=0, zorder=-1)
            ax.set(xlim=(-0.5, len(changes) - 0.5), ylim=(0.6, 1.02))
            names = [_TICKS.get((variant, change), change) for change in changes]
            ax.set_xticks(range(len(changes)), names, rotation=35, ha="right", rotation_mode="anchor")
        line[0].set_ylabel(f"{world}\ncoverage")
    for ax, name in zip(axes[0], _GROUP_NAMES, strict=True):
        ax.set_title(name)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCORES))
    figure.suptitle(
        f"Coverage by group at level {LEVEL}: {title}\nMean of {repeats} repeats. Thick bars, often smaller than the "
        "marker: two standard errors of it. Thin lines: the middle 90 % of repeats",
        fontsize=9.5,
    )
    return figure


def _toy() -> tuple[Sample, Prediction, Prediction]:
    """Return the calibration set behind the paper's tables, with the oracle and the misspecified model."""
    sample = papers_calibration(toy())
    return sample, sample.oracle(), misspecified(sample.oracle(), QuadraticVariance())


def _variance(said: Prediction) -> FloatArray:
    return said.required("spread", by="a figure") ** 2


def _thirds_of(values: FloatArray) -> IntArray:
    """Return each value's third, 0 to 2."""
    return np.searchsorted(thirds(values[None, :])[0], values)
