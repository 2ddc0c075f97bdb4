"""The paper's figures of the benchmark: coverage and width of every variant, all splits visible."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evencover.plots import BLACK, BLUE, GREEN, GREY, MARKERS, ORANGE, PALETTE, PURPLE, new_figure
from evencover.reproduction.benchmark.trials import ALL, Row
from evencover.reproduction.benchmark.variants import GROUPS

_BANDS = (BLUE, GREEN, ORANGE, PURPLE)
_TITLES = {ALL: "all rows", **{name: f"{name} estimated variance" for name in GROUPS}}


def benchmark_figure(rows: Sequence[Row], data: str, binning: str) -> Any:
    """Draw coverage and width on one data set: for all rows, then for each group.

    Models are background bands; within them the variants stand side by side, a point for each split and a line for
    their mean.

    Parameters
    ----------
    rows : sequence of dict
        From `run_benchmark`.
    data, binning : str
        Of which data set, and of which way of cutting groups.
    """
    shown = [row for row in rows if (row["data"], row["binning"]) == (data, binning)]
    models, variants = (list(dict.fromkeys(row[part] for row in shown)) for part in ("model", "variant"))
    places = {pair: x for x, pair in enumerate((model, variant) for model in models for variant in variants)}
    figure, axes = new_figure(len(_TITLES), 2, size=(15.0, 11.0), sharex=True)
    for line, (group, title) in zip(axes, _TITLES.items(), strict=True):
        here = [row for row in shown if row["group"] == group]
        for ax, measure in zip(line, ("coverage", "width"), strict=True):
            _draw_bands(ax, models, len(variants))
            _draw_points(ax, here, measure, places, variants)
            ax.set_title(f"{measure}, {title}")
        line[0].axhline(shown[0]["level"], color=BLACK, lw=0.9, ls="--", zorder=1)
        line[0].set_ylim(min(0.6, np.nanmin([row["coverage"] for row in shown])) - 0.02, 1.02)
        line[1].margins(y=0.1)
        line[1].set_ylim(bottom=0)
    for ax in axes[-1]:
        middles = [len(variants) * (place + 0.5) - 0.5 for place in range(len(models))]
        ax.set_xticks(middles, models, fontsize=11)
        ax.tick_params("x", length=0)
        ax.set_xlim(-0.5, len(places) - 0.5)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(variants), fontsize=10)
    figure.suptitle(_heading(shown, data, binning), fontsize=11)
    return figure


def _heading(shown: Sequence[Row], data: str, binning: str) -> str:
    splits = len({row["split"] for row in shown})
    cut = "exactly" if binning == "exact" else "as the paper's code did"
    return (
        f"{data}: {splits} splits, level {shown[0]['level']:g} (dashed); groups of estimated variance, cut {cut}. "
        "Widths in deviations of the target"
    )


def _draw_bands(ax: Any, models: Sequence[str], width: int) -> None:
    """Draw a band behind each model's variants."""
    for place, _ in enumerate(models):
        color = _BANDS[place % len(_BANDS)]
        ax.axvspan(width * place - 0.5, width * (place + 1) - 0.5, color=color, alpha=0.08, lw=0, zorder=0)


def _draw_points(
    ax: Any, rows: Sequence[Row], measure: str, places: Mapping[tuple[str, str], int], variants: Sequence[str]
) -> None:
    """Draw a point for each split, and a line at their mean; infinite values are counted at the top, without a mean."""
    top = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "top", "fontsize": 6}
    for (model, variant), x in places.items():
        values = np.array([row[measure] for row in rows if (row["model"], row["variant"]) == (model, variant)])
        finite = values[np.isfinite(values)]
        i = variants.index(variant)
        color, marker = PALETTE[(i - 1) % len(PALETTE)] if i else GREY, MARKERS[i % len(MARKERS)]
        look = {"s": 11, "marker": marker, "color": color, "alpha": 0.75, "lw": 0}
        ax.scatter(np.full(len(finite), x), finite, **look, label=variant if x == i else None)  # once in the legend
        if n_infinite := np.isinf(values).sum():
            ax.text(x, 0.97, f"{n_infinite}×∞", **top)
        elif len(finite):
            ax.hlines(finite.mean(), x - 0.36, x + 0.36, color=color, lw=1.6)
