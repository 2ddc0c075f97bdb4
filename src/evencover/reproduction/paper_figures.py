"""The paper's synthetic figures, drawn from new simulations."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from evencover.files.archive import atomic_write
from evencover.inputs.arrays import FloatArray, IntArray
from evencover.inputs.optional import import_optional
from evencover.plots import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LINE_STYLES,
    MARKERS,
    NOISE_COLORS,
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
from evencover.reproduction.coverage_tables import paper_calibration
from evencover.reproduction.simulation import (
    GROUPS,
    LEVEL,
    SCORES,
    TYPES,
    VARIANTS,
    CoverageCounts,
    check_repeats,
    coverages,
    pooled_coverage,
    seed_of,
    tertiles,
)
from evencover.scores import Residual
from evencover.synthetic import QuadraticVariance, Sample, misspecified, toy, two_modes, two_subgroups, unit_square
from evencover.theory import TRIANGULAR

REPEATS = 100
_SEED = 13
_TICKS = {("as written", "μ-shifted σ"): "μ-shifted N(0, 0.01σ²)"}  # there the shift is noise
_GROUP_NAMES = tuple(f"{name} estimated variance" for name in GROUPS)


def write_figures(folder: Path, *, repeats: int = REPEATS) -> Iterator[Path]:
    """Write every figure as PNG and SVG, and yield the paths as they are written.

    Parameters
    ----------
    folder : Path
        Output folder; created if it does not exist.
    repeats : int
        Number of repeats for the coverage figures; the paper has 10.
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
            with atomic_write(path) as file:
                file.write(content)
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
    data = two_subgroups()
    sample = data.sample(20, seed=_SEED)
    threshold = float(conformal_quantile(Residual()(sample.y, sample.oracle()), 0.8))
    covered = Residual().interval(threshold, sample.oracle()).covers(sample.y)
    x = np.array([0.0, 10.0])
    ends = [np.column_stack([x, [group, group]]) for group in (0, 1)]  # ends of each subgroup's line
    quiet, noisy = (float(data.distribution.spread(end)[0]) for end in ends)
    figure, ((ax,),) = new_figure(1, 1, size=(6.4, 3.8))
    kinds = (("quiet", quiet, BLUE, "o"), ("noisy", noisy, VERMILION, "s"))
    for group, (name, spread, color, marker) in enumerate(kinds):
        rows, mean = sample.X[:, 1] == group, data.distribution.mean(ends[group])
        conditional = 1 - 2 * norm.sf(threshold / spread)
        average = pooled_coverage(spread, (quiet, noisy), rows_per_subgroup=10, rank=conformal_rank(20, 0.8))
        ax.fill_between(x, mean - threshold, mean + threshold, color=color, alpha=0.15, lw=0)
        ax.plot(x, mean, color=color, lw=1)
        counts = f"{covered[rows].sum()} of {rows.sum()} covered"
        label = f"{name}, σ = {spread:g}: {counts}; new rows {conditional:.3f} (mean over such samples {average:.3f})"
        ax.plot(sample.X[rows, 0], sample.y[rows], marker, color=color, ms=5, label=label)
    ax.set(xlabel="x", ylabel="y", title="One residual threshold, level 0.8, calibrated on these 20 points")
    ax.legend(loc="upper left")
    ax.set_ylim(top=ax.get_ylim()[1] + 0.9)
    return figure


def taxonomies_figure() -> Any:
    """The unit square, split by a feature and by the spread."""
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
    """The toy model's true variance, and its tertiles."""
    _, oracle, _ = _toy()
    figure, ((ax,),) = new_figure(1, 1, size=(5.6, 3.4))
    variance = np.sort(_variance(oracle))
    share = np.arange(1, len(variance) + 1) / len(variance)
    codes = _tertile_codes(variance)
    for code, color in enumerate(NOISE_COLORS):
        rows = codes == code
        ax.plot(
            variance[rows], share[rows], color=color, lw=3.2, ls=LINE_STYLES[code], label=f"{GROUPS[code]} variance"
        )
    for share_below, edge in zip((1 / 3, 2 / 3), tertiles(variance[None, :])[0], strict=True):
        ax.plot([0, edge, edge], [share_below, share_below, 0], color=GREY, lw=0.8, ls=":")
        ax.annotate(f"{edge:.2f}", (edge, 0), xytext=(3, 3), textcoords="offset points", color=GREY)
    ax.set(xlabel="true variance", ylabel="share of rows", xlim=(0, None), ylim=(0, 1.01))
    ax.set_title("Toy model: thirds of the variance")
    ax.legend(loc="upper left")
    return figure


def variance_comparison_figure() -> Any:
    """The misspecified model's variance against the true variance, by tertiles of the misspecified one."""
    _, oracle, wrong = _toy()
    figure, ((ax,),) = new_figure(1, 1, size=(5.6, 3.8))
    true, estimated = _variance(oracle), _variance(wrong)
    codes = _tertile_codes(estimated)
    for code, color in enumerate(NOISE_COLORS):
        rows = codes == code
        points = {"s": 9, "lw": 0, "marker": MARKERS[code], "rasterized": True}
        ax.scatter(true[rows], estimated[rows], color=color, label=_GROUP_NAMES[code], **points)
    ends = np.array([true.min(), true.max()])
    ax.plot(ends, ends, color=BLACK, lw=1, ls="--", label="equal to the true variance")
    ax.set(xlabel="true variance", ylabel="estimated variance", title="Groups of the misspecified model")
    ax.legend(loc="upper center")
    return figure


def score_cdfs_figure() -> Any:
    """Score distributions by group, for two scores and for the oracle and the misspecified model."""
    sample, oracle, wrong = _toy()
    figure, axes = new_figure(2, 2, size=(7.6, 6.0), sharey=True)
    for column, (model, prediction) in enumerate((("oracle", oracle), ("misspecified", wrong))):
        codes = _tertile_codes(_variance(prediction))
        for row, name in enumerate(("residual", "normalised")):
            scores = SCORES[name](sample.y, prediction)
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
    misspecifications = VARIANTS[variant]
    rows = {
        make().name: coverages(make(), misspecifications, repeats=repeats, seed=seed_of(_SEED, kind, variant))
        for kind, make in TYPES.items()
    }
    return _coverage_figure(rows, variant, f"misspecifications {variant}", repeats)


def two_modes_figure(repeats: int) -> Any:
    """Coverage in Type 4: with the paper's oracle, with the true mean and variance, and for a mixture."""
    paper, mixture = two_modes(), two_modes(mixture=True)
    counts = partial(coverages, misspecifications=VARIANTS["as run"], repeats=repeats, seed=seed_of(_SEED, "Type 4"))
    rows = {
        "mode set by the mean,\npaper's oracle": counts(paper, oracle=mixture),
        "mode set by the mean,\ntrue mean and variance": counts(paper),
        "mixture,\ntrue mean and variance": counts(mixture),
    }
    return _coverage_figure(rows, "as run", "Type 4, misspecifications as run", repeats)


def _coverage_figure(
    rows: Mapping[str, Mapping[tuple[str, str], CoverageCounts]], variant: str, title: str, repeats: int
) -> Any:
    """Draw one row of panels for each kind of data, with one panel for each group."""
    columns = tuple(VARIANTS[variant])
    figure, axes = new_figure(len(rows), len(GROUPS), size=(11.0, 2.4 * len(rows) + 1.2), sharex=True, sharey=True)
    for panels, (name, found) in zip(axes, rows.items(), strict=True):
        for code, ax in enumerate(panels):
            series = [
                (score, found[column, score].coverage_by_repeat[:, code], i + 0.24 * (j - 1))
                for i, column in enumerate(columns)
                for j, score in enumerate(SCORES)
            ]
            plot_coverages(series, level=LEVEL, ax=ax)
            for i in range(0, len(columns), 2):
                ax.axvspan(i - 0.5, i + 0.5, color=GREY, alpha=0.07, lw=0, zorder=-1)
            ax.set(xlim=(-0.5, len(columns) - 0.5), ylim=(0.6, 1.02))
            ticks = [_TICKS.get((variant, column), column) for column in columns]
            ax.set_xticks(range(len(columns)), ticks, rotation=35, ha="right", rotation_mode="anchor")
        panels[0].set_ylabel(f"{name}\ncoverage")
    for ax, group in zip(axes[0], _GROUP_NAMES, strict=True):
        ax.set_title(group)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(SCORES))
    figure.suptitle(
        f"Coverage by group at level {LEVEL}: {title}\nMean of {repeats} repeats. Thick bars, often smaller than the "
        "marker: ± two standard errors. Thin lines: the middle 90 % of the repeats",
        fontsize=9.5,
    )
    return figure


def _toy() -> tuple[Sample, Prediction, Prediction]:
    """Return the calibration set behind the paper's tables, with the oracle and the misspecified model."""
    sample = paper_calibration(toy())
    return sample, sample.oracle(), misspecified(sample.oracle(), QuadraticVariance())


def _variance(prediction: Prediction) -> FloatArray:
    return prediction.required("spread", by="a figure") ** 2


def _tertile_codes(values: FloatArray) -> IntArray:
    """Return the number of each value's third, 0 to 2."""
    return np.searchsorted(tertiles(values[None, :])[0], values)
