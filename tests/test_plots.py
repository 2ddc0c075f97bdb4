"""Plots show the data that they are given."""

from functools import cache

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from evencover import Intervals, audit, diagnose_scores
from evencover.plots import (
    VERMILION,
    plot_coverages,
    plot_diagnosis,
    plot_group_coverages,
    plot_intervals,
    plot_score_cdfs,
)
from evencover.reproduction import paper_figures
from evencover.reproduction.paper_figures import figures, write_figures

mpl.use("agg")
NAMES = [
    *("two_subgroups", "two_taxonomies", "triangular_density", "variance_cdf", "variance_comparison", "score_cdfs"),
    *("coverage_types_1_to_3", "coverage_types_1_to_3_as_written", "coverage_type_4"),
]


@cache
def drawn(name):
    """Return a figure of the paper with few repeats, for tests that do not change it."""
    return figures(2)[name]()


@pytest.fixture
def ax():
    return Figure().subplots()


def test_score_cdfs_show_the_ecdfs_the_level_and_the_threshold(ax):
    rng = np.random.default_rng(0)
    scores = {"quiet": rng.random(50), "noisy": 2 * rng.random(70)}
    assert plot_score_cdfs(scores, level=0.8, threshold=1.3, ax=ax) is ax
    lines = {line.get_label(): line for line in ax.lines}
    for name, values in (*scores.items(), ("all rows", np.concatenate(list(scores.values())))):
        x, share = lines[name].get_data()
        shown = np.sort(values[values <= x[-1]])  # the axis ends at the 0.999 quantile
        np.testing.assert_allclose(x[1:-1], shown)
        np.testing.assert_allclose(share[1:-1], np.arange(1, len(shown) + 1) / len(values))
        assert share[-1] == len(shown) / len(values)
    assert any(list(line.get_ydata()) == [0.8, 0.8] for line in ax.lines)
    assert any(list(line.get_xdata()) == [1.3, 1.3] for line in ax.lines)


@pytest.mark.slow
def test_bands_contain_the_true_distribution_in_95_percent_of_samples(ax):
    """For uniform scores, whose distribution function is the diagonal. The bands are conservative: at least 95 %."""
    rng = np.random.default_rng(1)
    heights, n_contained = np.arange(41) / 40, 0
    for _ in range(300):
        ax.clear()
        plot_score_cdfs({"group": rng.random(40)}, ax=ax)
        corners = ax.collections[0].get_paths()[0].vertices
        assert corners[:, 0].min() == 0
        half_width = 1 - corners[corners[:, 0] == corners[:, 0].max(), 1].min()  # below the last step
        scores = ax.lines[1].get_xdata()[1:-1]
        distances = np.abs([heights[1:] - scores, heights[:-1] - scores])
        n_contained += bool((distances <= half_width).all())
    assert 265 <= n_contained <= 299  # 285 expected or more; twice as wide bands would always contain it


def test_coverages_are_drawn_with_standard_errors_and_quantiles(ax):
    values = np.linspace(0.8, 1.0, 101)
    assert (
        plot_coverages([("one", values, 0.0), ("two", values - 0.1, 1.0), ("one", values, 2.0)], level=0.9, ax=ax) is ax
    )
    handles, labels = ax.get_legend_handles_labels()
    assert labels == ["one", "two"]
    bar = handles[0].lines[2][0].get_segments()[0]
    np.testing.assert_allclose(bar[:, 1], 0.9 + np.array([-2, 2]) * values.std(ddof=1) / np.sqrt(101))
    middle_90_percent = ax.collections[0].get_segments()[0]
    np.testing.assert_allclose(middle_90_percent[:, 1], [0.81, 0.99])


def test_without_axes_a_new_figure_is_made():
    ax = plot_score_cdfs({"group": np.array([1.0, 2.0])})
    assert ax.figure is plt.gcf()
    plt.close("all")


def test_a_diagnosis_is_drawn_as_ecdfs_of_its_scores(ax):
    scores = np.append(np.random.default_rng(0).exponential(size=8000), np.inf)
    found = diagnose_scores(scores, np.arange(8001) % 2)
    assert plot_diagnosis(found, ax=ax) is ax
    assert [text.get_text() for text in ax.get_legend().texts] == ["all rows", "0", "1"]
    assert found.verdict in ax.get_title()
    line = ax.lines[0]
    at_threshold = line.get_ydata()[np.searchsorted(line.get_xdata(), found.threshold, side="right") - 1]
    assert abs(at_threshold - 0.9) < 0.001  # fewer steps, but the same curve
    assert len(line.get_xdata()) <= 5002
    assert line.get_ydata()[-1] < 1  # the infinite score is counted, but not shown
    assert np.isfinite(ax.get_xlim()).all()


def test_a_diagnosis_without_a_finite_threshold_can_be_drawn(ax):
    plot_diagnosis(diagnose_scores([np.inf, np.inf], ["a", "b"]), ax=ax)
    assert len([line for line in ax.lines if list(line.get_xdata()) == [np.inf, np.inf]]) == 0


def test_long_tails_and_many_groups_stay_readable(ax):
    rng = np.random.default_rng(0)
    scores = np.abs(rng.standard_cauchy(900))
    plot_diagnosis(diagnose_scores(scores, np.arange(900) % 3), ax=ax)
    assert ax.get_xlim()[1] < 4 * np.quantile(scores, 0.95)
    ax.clear()
    plot_diagnosis(diagnose_scores(scores, np.arange(900) % 15), ax=ax)
    assert not ax.collections  # no bands
    ax.clear()
    plot_diagnosis(diagnose_scores(np.zeros(30), np.arange(30) % 2), ax=ax)
    assert ax.get_xlim()[1] > 0


def test_group_coverages_are_drawn_with_their_intervals(ax):
    rng = np.random.default_rng(0)
    scores = rng.exponential(size=2000) * np.repeat([1.0, 3.0], 1000)
    found = diagnose_scores(scores, np.repeat(["quiet", "noisy"], 1000))
    assert plot_group_coverages(found, ax=ax) is ax
    assert [label.get_text() for label in ax.get_yticklabels()] == ["noisy (1000 rows)", "quiet (1000 rows)"]
    bars = [bar.get_segments()[0][:, 0].tolist() for bar in ax.collections if hasattr(bar, "get_segments")]
    assert bars == [[row.low, row.high] for row in found.table]
    assert {line.get_color() for line in ax.lines if line.get_marker() == "D"} == {VERMILION}  # both exclude the level
    checked = audit(rng.random(500), (np.zeros(500), np.full(500, 0.9)))
    assert checked.verdict in plot_group_coverages(checked).get_title()
    plt.close("all")


def test_figures_returns_every_synthetic_figure_of_the_paper():
    assert list(figures()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn(name):
    assert all(ax.has_data() for ax in drawn(name).axes)


@pytest.mark.slow
def test_figures_are_written_as_png_and_svg(tmp_path):
    written = list(write_figures(tmp_path, repeats=4))
    assert [path.name for path in written] == [f"{name}.{extension}" for name in NAMES for extension in ("png", "svg")]
    for path in written:
        assert path.read_bytes().startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")
        assert path.stat().st_size > 10_000


def test_equal_figures_give_equal_files(tmp_path, monkeypatch):
    some = {name: figures()[name] for name in ("two_subgroups", "triangular_density")}
    monkeypatch.setattr(paper_figures, "figures", lambda repeats: some)
    first, second = (list(write_figures(tmp_path / name)) for name in ("one", "two"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_the_coverage_figure_has_a_panel_for_each_type_and_group_with_the_level():
    figure = drawn("coverage_types_1_to_3")
    panels = figure.axes
    assert len(panels) == 9
    for panel in panels:
        assert any(list(line.get_ydata()) == [0.9, 0.9] for line in panel.lines)
        assert len(panel.containers) == 21  # seven misspecifications by three scores
    assert [text.get_text() for text in figure.legends[0].texts] == ["residual", "interval", "normalised"]


def test_the_legend_of_two_subgroups_counts_the_points():
    labels = drawn("two_subgroups").axes[0].get_legend_handles_labels()[1]
    counts = [int(label.split(": ")[1].split(" of ")[0]) for label in labels]
    assert sum(counts) == 17  # the rank of the threshold among the 20
    assert [label.rsplit(" ", 1)[1] for label in labels] == ["0.998)", "0.637)"]


class TestIntervals:
    def test_rows_are_sorted_and_missed_targets_are_marked(self, ax):
        y, by = np.array([0.0, 5.0, 1.0, 2.0]), np.array([3.0, 1.0, 2.0, 4.0])
        intervals = Intervals([-1.0, -1.0, 3.0, np.nan], [1.0, 1.0, 4.0, np.nan])
        plot_intervals(y, intervals, by, ax=ax)
        (lines,) = ax.collections
        assert [segment[:, 1].tolist() for segment in lines.get_segments()] == [[-1, 1], [3, 4], [-1, 1]]
        covered, missed = ax.lines
        assert (covered.get_xdata().tolist(), covered.get_ydata().tolist()) == ([2], [0])
        assert (missed.get_xdata().tolist(), missed.get_ydata().tolist()) == ([0, 1, 3], [5, 1, 2])
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["interval", "covered (1)", "missed (3)"]

    def test_at_most_so_many_rows_are_drawn(self, ax):
        plot_intervals(np.zeros(1000), Intervals(np.full(1000, -1.0), np.ones(1000)), np.arange(1000.0), most=50, ax=ax)
        assert len(ax.lines[0].get_xdata()) == 50

    def test_only_intervals_for_one_level_can_be_drawn(self):
        with pytest.raises(TypeError, match="intervals must be Intervals for one level; got"):
            plot_intervals(np.zeros(2), np.zeros((2, 2)), np.zeros(2))

    def test_intervals_draw_themselves_with_their_predictions(self, ax):
        intervals = Intervals([0.0, 2.0, 1.0], [4.0, 6.0, 3.0], prediction=np.array([2.0, 4.0, 1.5]))
        assert intervals.plot(ax=ax) is ax
        (ticks,) = ax.lines
        assert ticks.get_ydata().tolist() == [1.5, 2.0, 4.0]
        assert [text.get_text() for text in ax.get_legend().get_texts()] == ["interval", "prediction"]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("3 rows, sorted by prediction", "prediction interval")

    def test_the_order_is_that_of_a_feature_the_prediction_or_the_middle(self, ax):
        intervals = Intervals([0.0, -9.0, -np.inf], [1.0, -5.0, np.inf])
        assert intervals.plot([0.5, 0.0, 0.0], ax=ax).get_xlabel() == "3 rows, sorted by middle of the interval"
        assert ax.lines[0].get_xdata().tolist() == [1, 2]
        assert ax.get_ylim()[0] < -9
        assert ax.get_ylim()[1] < 5  # an infinite interval does not stretch the axis
        feature = pd.Series([3, 1, 2], name="area")
        assert intervals.plot(by=feature, most=2).get_xlabel() == "2 of 3 rows, sorted by area"
        plt.close("all")
