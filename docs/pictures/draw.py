"""Draw the pictures of the README and the pages, into the folder of this file."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright

from evencover import BySpread, Residual, Rows, calibrate, coverage_by_group, diagnose_scores, write_report
from evencover.datasets._table_files import read_table
from evencover.intervals import Intervals
from evencover.plots import BLUE, GREY, STYLE, VERMILION, new_figure, plot_diagnosis, plot_group_coverages
from evencover.reproduction.paper_figures import figures
from evencover.studies import study
from evencover.synthetic import Sample, heteroskedastic, toy

LEVEL = 0.9
PAPER_FIGURES = ("coverage_types_1_to_3", "score_cdfs")


def main() -> None:
    """Write the pictures."""
    drawings = {"coverage_by_noise": coverage_by_noise, "diagnosis": diagnosis}
    drawings |= {name: figures()[name] for name in PAPER_FIGURES}
    for name, draw in drawings.items():
        with mpl.rc_context({**STYLE, "savefig.dpi": 160}):
            draw().savefig(Path(__file__).with_name(f"{name}.png"))
    if shutil.which("chromium"):
        report(Path(__file__).with_name("report.png"))


def report(path: Path) -> None:
    """Save a screenshot of the first page of a report, on houses whose prices vary more if they are large."""
    rng = np.random.default_rng(0)
    area, region = rng.uniform(30, 200, 20_000).round(), rng.choice(["north", "south", "coast"], 20_000)
    price = 50 + 3 * area + 80 * (region == "coast") + (3 + area**2 / 400) * rng.normal(size=20_000)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "houses.csv"
        pd.DataFrame({"area": area, "region": region, "price": price}).to_csv(file, index=False)
        result = study(read_table(file), "price", name=file.name)
        write_report(result, Path(folder) / "report.html")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 860, "height": 960}, device_scale_factor=1.5)
        tab.goto((Path(folder) / "report.html").as_uri())
        tab.screenshot(path=path)


def coverage_by_noise() -> Figure:
    """Draw the coverage by noise level, with one threshold and with one threshold for each level."""
    calibration, test = heteroskedastic(3000, seed=0), heteroskedastic(60_000, seed=1)
    one, per_level = one_threshold(calibration, test), threshold_per_level(calibration, test)
    figure, ((left, right),) = new_figure(1, 2, size=(9.6, 3.6))
    draw_rows(left, test, one, per_level)
    draw_coverage(right, test, one, per_level)
    return figure


def diagnosis() -> Figure:
    """Draw the diagnosis of the residual score of the paper's toy model."""
    sample = toy().sample(6000, seed=1)
    prediction = sample.oracle()
    found = diagnose_scores(Residual()(sample.y, prediction), BySpread(3).learn(Rows(prediction)), level=LEVEL)
    figure, ((left, right),) = new_figure(1, 2, size=(9.6, 3.6))
    plot_diagnosis(found, ax=left)
    plot_group_coverages(found, ax=right)
    return figure


def one_threshold(calibration: Sample, test: Sample) -> Intervals:
    """Return the intervals of split conformal prediction."""
    return calibrate(calibration.y, calibration.oracle(), nonconformity=Residual()).interval(test.oracle(), level=LEVEL)


def threshold_per_level(calibration: Sample, test: Sample) -> Intervals:
    """Return intervals with a threshold for each of five noise levels."""
    taxonomy = BySpread(5)
    groups = taxonomy.learn(Rows(calibration.oracle()))
    fitted = calibrate(calibration.y, calibration.oracle(), nonconformity=Residual(), groups=groups)
    return fitted.interval(test.oracle(), groups=taxonomy.assign(Rows(test.oracle())), level=LEVEL)


def draw_rows(axes: Axes, test: Sample, one: Intervals, per_level: Intervals) -> None:
    """Draw the residuals of some rows against their noise, with both kinds of intervals."""
    rows = np.argsort(test.spread)[::80]
    spread, residual = test.spread[rows], (test.y - test.mean)[rows]
    missed = ~one[rows].covers(test.y[rows])
    axes.scatter(
        spread[~missed], residual[~missed], s=5, color=GREY, alpha=0.45, linewidths=0, label="covered by one threshold"
    )
    axes.scatter(spread[missed], residual[missed], s=9, color=VERMILION, linewidths=0, label="missed by one threshold")
    for intervals, color, name in ((one, VERMILION, "one threshold"), (per_level, BLUE, "one per noise level")):
        axes.plot(spread, (intervals.lower - test.mean)[rows], color=color, lw=1.8)
        axes.plot(spread, (intervals.upper - test.mean)[rows], color=color, lw=1.8, label=name)
    axes.set(
        xlabel="noise of the row (standard deviation)",
        ylabel="target minus prediction",
        title="90 % intervals, residual score",
    )
    axes.legend(frameon=False, fontsize=8.5, loc="upper left")


def draw_coverage(axes: Axes, test: Sample, one: Intervals, per_level: Intervals) -> None:
    """Draw the coverage at each noise level."""
    axes.axhline(LEVEL, color=GREY, lw=1, ls="--", label="nominal level")
    for intervals, color, name in ((one, VERMILION, "one threshold"), (per_level, BLUE, "one per noise level")):
        coverages = coverage_by_group(test.y, intervals, per_level.groups)
        axes.plot(
            [str(label) for label in coverages], list(coverages.values()), "o-", color=color, ms=6, lw=1.8, label=name
        )
    axes.set(xlabel="noise level", ylabel="share of targets covered", xlim=(-0.4, 4.4), ylim=(0.5, 1.02))
    axes.set_title("Coverage by noise level")
    axes.legend(frameon=False, fontsize=8.5, loc="lower left")


if __name__ == "__main__":
    main()
