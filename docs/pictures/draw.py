"""Draw the pictures of the README and the pages, into the folder of this file."""

import shutil
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright
from sklearn.linear_model import LinearRegression

from evencover import (
    Bounded,
    ByGroup,
    BySpread,
    ConformalRegressor,
    Normalized,
    OneSided,
    Prediction,
    PredictiveDistribution,
    ProbabilityDistance,
    Residual,
    Rows,
    TwoTails,
    calibrate,
    coverage_by_group,
    diagnose_scores,
    write_report,
)
from evencover.inputs.arrays import FloatArray
from evencover.intervals import Intervals
from evencover.models import WithSpread
from evencover.plots import (
    BLUE,
    GREY,
    LINE_STYLES,
    NOISE_COLORS,
    STYLE,
    VERMILION,
    new_figure,
    plot_diagnosis,
    plot_group_coverages,
)
from evencover.reproduction.paper_figures import figures
from evencover.studies import study
from evencover.synthetic import Sample, heteroskedastic, skewed, toy
from evencover.tables.files import read_table

LEVEL = 0.9
Drawn: TypeAlias = tuple[tuple[Intervals, str, str], ...]  # intervals, their color and name
PAPER_FIGURES = ("coverage_types_1_to_3", "score_cdfs")


def main() -> None:
    """Write the pictures."""
    drawings = {"coverage_by_noise": coverage_by_noise, "diagnosis": diagnosis, "skewed_noise": skewed_noise}
    drawings |= {"predictive": predictive, "tails": tails, "target_scale": target_scale}
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


def predictive() -> Figure:
    """Draw predictive distributions of three rows, and the PIT of many rows, for skewed noise."""
    data = skewed()
    calibration, test = data.sample(5000, seed=0), data.sample(20_000, seed=1)
    rows = Rows(calibration.oracle(), y=calibration.y)
    fitted = calibrate(rows.y, rows.prediction, nonconformity=Normalized())
    figure, ((left, right),) = new_figure(1, 2, size=(9.6, 3.6))
    three = data.oracle(np.array([[0.5, noise, 0.5] for noise in (0.0, 0.5, 1.0)]))
    draw_distributions(left, PredictiveDistribution.from_calibration(fitted, three, calibration_rows=rows), limit=4.0)
    smoothed = PredictiveDistribution.from_calibration(fitted, test.oracle(), calibration_rows=rows, seed=0)
    draw_pit(right, smoothed.pit(test.y), test.oracle().cdf(test.y))
    return figure


def draw_distributions(axes: Axes, distribution: PredictiveDistribution, limit: float) -> None:
    """Draw the distribution function of three rows, and the chance that each exceeds a limit."""
    values = np.linspace(0.5, 8, 1000)
    for row, noise in enumerate(("little", "medium", "much")):
        one, style = distribution[row], {"color": NOISE_COLORS[row], "ls": LINE_STYLES[row], "lw": 1.8}
        chance = 1 - one.cdf(limit)[0]
        label = f"{noise} noise: exceeds {limit:g} with {100 * chance:.0f} %"
        axes.plot(values, [one.cdf(value)[0] for value in values], label=label, **style)
    axes.axvline(limit, ymin=0.28, color=GREY, lw=1, ls=":")
    axes.set(
        xlabel="target", ylabel="probability of at most this target", title="Predictive distributions of three rows"
    )
    axes.legend(frameon=False, fontsize=8.5, loc="lower right")


def draw_pit(axes: Axes, calibrated: np.ndarray, own: np.ndarray) -> None:
    """Draw histograms of the PIT of calibrated distributions, and of the normal distributions of the model."""
    edges = np.linspace(0, 1, 21)
    for values, color, style, name in (
        (own, VERMILION, "--", "normal, not calibrated"),
        (calibrated, BLUE, "-", "calibrated"),
    ):
        axes.stairs(np.histogram(values, edges)[0] / len(values), edges, color=color, ls=style, lw=1.8, label=name)
    axes.set(xlabel="PIT: predicted probability of at most the observed target", ylabel="share of rows", ylim=(0, 0.1))
    axes.set_title("Check on 20 000 new rows: flat is right")
    axes.legend(frameon=False, fontsize=8.5, loc="upper right")


def skewed_noise() -> Figure:
    """Draw symmetric and skewed intervals for skewed noise, and how often the target is below and above them."""
    calibration, test = skewed().sample(3000, seed=0), skewed().sample(60_000, seed=1)
    symmetric = calibrate(calibration.y, calibration.oracle(), nonconformity=Normalized()).interval(test.oracle())
    fitted = calibrate(calibration.y, calibration.oracle_distribution(), nonconformity=ProbabilityDistance())
    by_probability = fitted.interval(test.oracle_distribution())
    figure, ((left, right),) = new_figure(1, 2, size=(9.6, 3.6))
    both = ((symmetric, VERMILION, "Normalized: symmetric"), (by_probability, BLUE, "ProbabilityDistance: skewed"))
    skewness = 0.2 + 1.8 * test.X[:, 2]
    draw_skewed_rows(left, test, skewness, both)
    draw_misses(right, test, skewness, both)
    return figure


def draw_skewed_rows(axes: Axes, test: Sample, skewness: FloatArray, both: Drawn) -> None:
    """Draw standardised residuals of some rows against the skewness of their noise, with the intervals."""
    rows = np.argsort(skewness)[::60]
    unit = test.spread[rows]
    axes.scatter(skewness[rows], (test.y - test.mean)[rows] / unit, s=5, color=GREY, alpha=0.45, linewidths=0)
    for intervals, color, name in both:
        axes.plot(skewness[rows], (intervals.lower - test.mean)[rows] / unit, color=color, lw=1.8)
        axes.plot(skewness[rows], (intervals.upper - test.mean)[rows] / unit, color=color, lw=1.8, label=name)
    axes.set(xlabel="skewness of the noise", ylabel="(target - mean) / spread", title="90 % intervals", ylim=(-3.2, 5))
    axes.legend(frameon=False, fontsize=8.5, loc="upper left")


def draw_misses(axes: Axes, test: Sample, skewness: FloatArray, both: Drawn) -> None:
    """Draw the exact probability of a target below and above the interval, by the skewness of the noise."""
    axes.axhline((1 - LEVEL) / 2, color=GREY, lw=1, ls="--", label="5 % on each side")
    bins = np.digitize(skewness, np.linspace(0.2, 2.0, 10)[1:-1])
    middles = [skewness[bins == each].mean() for each in range(9)]
    for intervals, color, name in both:
        misses = {
            "below": test.source.distribution.cdf(intervals.lower, test.X),
            "above": 1 - test.source.distribution.cdf(intervals.upper, test.X),
        }
        for side, style in (("below", "v--"), ("above", "^-")):
            shares = [misses[side][bins == each].mean() for each in range(9)]
            axes.plot(middles, shares, style, color=color, ms=5, lw=1.6, label=f"{name.split()[-1]}, {side}")
    axes.set(
        xlabel="skewness of the noise", ylabel="share of targets", title="Targets below and above", ylim=(-0.003, 0.13)
    )
    axes.legend(frameon=False, fontsize=8.5, loc="upper left", ncols=2)


def tails() -> Figure:
    """Draw one threshold for both ends, one for each end, and an upper bound, for skewed noise."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=8000)
    y = x + (0.2 + x) * (rng.exponential(size=8000) - 1)
    old, new = slice(4000), slice(4000, None)
    rows, later = Rows(Prediction(x[old], 0.2 + x[old]), y=y[old]), Rows(Prediction(x[new], 0.2 + x[new]))
    level = (Fraction(9, 10),)
    drawn = {
        "one threshold": ByGroup().learn(rows, Normalized()).intervals(later, level),
        "one for each end": TwoTails().learn(rows, Normalized()).intervals(later, level),
        "an upper bound": ByGroup().learn(rows, OneSided(Normalized())).intervals(later, level),
    }
    figure, (axes,) = new_figure(1, 3, size=(9.6, 3.3))
    for each, (name, intervals) in zip(axes, drawn.items(), strict=True):
        draw_band(each, x[new], y[new], intervals.lower[:, 0], intervals.upper[:, 0])
        below, above = ((y[new] < intervals.lower[:, 0]).mean(), (y[new] > intervals.upper[:, 0]).mean())
        each.set(
            xlabel="feature", title=f"{name}\n{below:.1%} below, {above:.1%} above".replace("%", " %"), ylim=(-2, 6)
        )
    axes[0].set_ylabel("target")
    return figure


def target_scale() -> Figure:
    """Draw intervals of counts with and without their support, and of prices with and without the logarithm."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=(2, 3000)), axis=1)
    visits, price = rng.poisson(0.2 + 3 * x[0] ** 2), np.exp(1 + 2 * x[1] + rng.normal(scale=0.4, size=3000))
    model, counts = WithSpread(LinearRegression(), random_state=0), Bounded(Normalized(), y_min=0, whole=True)
    figure, (axes,) = new_figure(1, 4, size=(11.5, 3.2))
    settings: list[tuple[str, FloatArray, FloatArray, Any]] = [
        ("counts: Normalized()", x[0], visits, {"nonconformity": Normalized()}),
        ("counts: Bounded(Normalized(), ...)", x[0], visits, {"nonconformity": counts}),
        ("prices", x[1], price, {}),
        ('prices: target_transform="log"', x[1], price, {"target_transform": "log"}),
    ]
    for each, (title, feature, target, arguments) in zip(axes, settings, strict=True):
        estimator = model if "nonconformity" in arguments else LinearRegression()
        regressor = ConformalRegressor(estimator, random_state=0, **arguments).fit(feature[:, None], target)
        intervals = regressor.predict_interval(feature[:, None], level=LEVEL)
        draw_band(each, feature, target, intervals.lower, intervals.upper)
        each.axhline(0, color=GREY, lw=0.8)
        each.set(xlabel="feature", ylim=(-3, 9) if target is visits else (-6, 45))
        each.set_title(title, fontsize=9.5)
    axes[0].set_ylabel("target")
    return figure


def draw_band(axes: Axes, x: FloatArray, y: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
    """Draw some rows, with their intervals as a band."""
    order = np.argsort(x)
    bottom = np.where(np.isinf(lower), y.min() - 10, lower)
    axes.fill_between(x[order], bottom[order], upper[order], color=BLUE, alpha=0.2, lw=0)
    shown = order[:: len(order) // 500]
    missed = (y[shown] < lower[shown]) | (y[shown] > upper[shown])
    axes.scatter(x[shown][~missed], y[shown][~missed], s=4, color=GREY, alpha=0.6, linewidths=0)
    axes.scatter(x[shown][missed], y[shown][missed], s=8, color=VERMILION, linewidths=0)


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
