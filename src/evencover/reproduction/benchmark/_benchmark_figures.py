"""The benchmark's figures, after the paper: coverage and width of every variant in every split."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from evencover.plots import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALETTE, PURPLE, new_figure
from evencover.reproduction.benchmark.trials import ALL_ROWS, Row
from evencover.reproduction.benchmark.variants import GROUP_NAMES

_BANDS = (BLUE, GREEN, ORANGE, PURPLE)
_TITLES = {ALL_ROWS: "all rows", **{name: f"{name} estimated variance" for name in GROUP_NAMES}}


def benchmark_figure(rows: Sequence[Row], data: str, binning: str) -> Any:
    """Return a figure of coverage and width on one data set: for all rows, then for each group.

    Each model is a band in the background. In it the variants are next to each other, with a point for each split and a
    horizontal line at their mean.

    Parameters
    ----------
    rows : sequence of dict
        From `run_benchmark`.
    data, binning : str
        Names of the data set, and of the method that forms the groups.
    """
    shown = [row for row in rows if (row["data"], row["binning"]) == (data, binning)]
    models, variants = (list(dict.fromkeys(row[part] for row in shown)) for part in ("model", "variant"))
    figure, axes = new_figure(len(_TITLES), 2, size=(15.0, 11.0), sharex=True)
    for axes_row, (group, title) in zip(axes, _TITLES.items(), strict=True):
        in_group = [row for row in shown if row["group"] == group]
        for ax, measure in zip(axes_row, ("coverage", "width"), strict=True):
            _draw_bands(ax, models, len(variants))
            _draw_points(ax, in_group, measure, models, variants)
            ax.set_title(f"{measure}, {title}")
        axes_row[0].axhline(shown[0]["level"], color=BLACK, lw=0.9, ls="--", zorder=1)
        axes_row[0].set_ylim(min(0.6, np.nanmin([row["coverage"] for row in shown])) - 0.02, 1.02)
        axes_row[1].margins(y=0.1)
        axes_row[1].set_ylim(bottom=0)
    for ax in axes[-1]:
        middles = [len(variants) * (index + 0.5) - 0.5 for index in range(len(models))]
        ax.set_xticks(middles, models, fontsize=11)
        ax.tick_params("x", length=0)
        ax.set_xlim(-0.5, len(models) * len(variants) - 0.5)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(variants), fontsize=10)
    figure.suptitle(_heading(shown, data, binning), fontsize=11)
    return figure


def _heading(shown: Sequence[Row], data: str, binning: str) -> str:
    splits = len({row["split"] for row in shown})
    edges = "edge rows calibrated separately" if binning == "exact" else "as in the paper's code"
    return (
        f"{data}: {splits} splits, level {shown[0]['level']:g} (dashed); groups: thirds of the estimated variance, "
        f"{edges}. Widths in standard deviations of the training targets"
    )


def _draw_bands(ax: Any, models: Sequence[str], width: int) -> None:
    """Draw a band behind each model's variants."""
    for index, _ in enumerate(models):
        color = _BANDS[index % len(_BANDS)]
        ax.axvspan(width * index - 0.5, width * (index + 1) - 0.5, color=color, alpha=0.08, lw=0, zorder=0)


def _draw_points(ax: Any, rows: Sequence[Row], measure: str, models: Sequence[str], variants: Sequence[str]) -> None:
    """Draw a point for each split and a line at their mean; with infinite values, their number instead of the line."""
    values: dict[tuple[str, str], list[float]] = {(variant, model): [] for variant in variants for model in models}
    for row in rows:
        values[row["variant"], row["model"]].append(row[measure])
    top = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": 6}
    for number, variant in enumerate(variants):
        points, means = [], []
        for index, model in enumerate(models):
            x = len(variants) * index + number
            of_splits = np.array(values[variant, model])
            finite = of_splits[np.isfinite(of_splits)]
            points += [(x, value) for value in finite]
            if n_infinite := np.isinf(of_splits).sum():
                ax.text(x, 0.97, f"{n_infinite}×∞", **top)
            elif len(finite):
                means.append((x, finite.mean()))
        color = PALETTE[(number - 1) % len(PALETTE)] if number else GREY
        look = {"s": 11, "marker": MARKERS[number % len(MARKERS)], "color": color, "alpha": 0.75, "lw": 0}
        ax.scatter(*np.reshape(points, (-1, 2)).T, **look, label=variant)
        x_means, y_means = np.reshape(means, (-1, 2)).T
        ax.hlines(y_means, x_means - 0.36, x_means + 0.36, color=color, lw=1.6)
