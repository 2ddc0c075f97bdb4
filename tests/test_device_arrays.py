"""Arrays of other libraries against numpy, bit for bit; they stay on their device."""

import os
import pickle
import subprocess
import sys
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any
from unittest import mock

import array_api_strict
import jax
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

import evencover
from evencover import (
    Bounded,
    ByFeature,
    ByGroup,
    ByPrediction,
    BySpread,
    ByTarget,
    Calibration,
    ConformalRegressor,
    Groups,
    IntervalDistance,
    Intervals,
    Normalized,
    OneSided,
    Prediction,
    ProbabilityDistance,
    RelativeIntervalDistance,
    Residual,
    Rows,
    Standardized,
    TooFewRowsWarning,
    TwoTails,
    calibrate,
    conformal_quantile,
)
from evencover.calibration.device_scores import DeviceScores
from evencover.inputs.device_arrays import _round_length as round_length
from evencover.metrics import misses_by_group
from evencover.quantiles import is_level_sequence, level_fractions
from tests.messages import facts

SELECTION, SCORES = "evencover.inputs.device_arrays", "evencover.calibration.device_scores"
LEVELS = [0.05, 0.5, 0.8, 0.9, 0.99]

with mock.patch.object(os, "register_at_fork"):  # JAX would warn at every fork, also in other tests
    jax.devices()


@dataclass(frozen=True)
class Library:
    """A library of arrays, and the way from numpy to it."""

    name: str
    array: Any
    type: type

    def context(self):
        """Return a context in which the library has float64."""
        return jax.enable_x64(True) if self.name == "jax" else nullcontext()

    def numpy(self, array):
        """Return an array as numpy's, after a look at its type."""
        assert isinstance(array, self.type)
        return np.asarray(array)


LIBRARIES = {
    "strict": Library("strict", array_api_strict.asarray, type(array_api_strict.asarray(0))),
    "torch": Library("torch", torch.asarray, torch.Tensor),
    "jax": Library("jax", jax.numpy.asarray, jax.Array),
}


@pytest.fixture(params=LIBRARIES)
def library(request):
    found = LIBRARIES[request.param]
    with found.context():
        yield found


def by_library_and(name, values, *, in_jax):
    """Parametrize by library and a value. JAX compiles for each, so its other values are tested only with slow tests."""
    return pytest.mark.parametrize(
        ("library", name),
        [
            pytest.param(library, value, marks=() if library != "jax" or value in in_jax else pytest.mark.slow)
            for library in LIBRARIES
            for value in values
        ],
        indirect=["library"],
    )


@pytest.fixture(params=[100_000, 8, "GPU"])
def sort_limit(request, monkeypatch):
    """Once all scores are sorted, once they are selected, although there are few; and once as on a GPU."""
    if request.param == "GPU":
        monkeypatch.setattr(f"{SCORES}.on_cpu", lambda _: False)
    else:
        monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", request.param)
    return request.param


@pytest.fixture
def sorted_sizes(monkeypatch):
    """The sizes of all arrays that are sorted by the strict library."""
    sizes, sort = [], array_api_strict.sort
    monkeypatch.setattr(array_api_strict, "sort", lambda x, **options: sizes.append(x.shape[0]) or sort(x, **options))
    return sizes


def thresholds(scores, level, groups, n_groups):
    """Return the thresholds of scores on a device, by group."""
    stored = DeviceScores(scores, Groups(groups, tuple(range(n_groups))))
    table = stored.thresholds(level_fractions(level)).table
    return table if is_level_sequence(level) else table[:, 0]


def score_cases():
    """Return arrays of scores by name, of few different lengths because JAX compiles for each."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=500)
    infinite = np.where(rng.random(500) < 0.3, np.inf, normal)
    return {
        "random": np.abs(normal),
        "sorted": np.sort(normal),
        "reversed": -np.sort(normal),
        "ties": rng.integers(0, 5, 500).astype(float),
        "few ties": np.round(normal, 1) + 0.0,  # without −0.0, which equals 0.0
        "constant": np.full(500, 2.5),
        "two values": np.repeat([1.0, 2.0], 250),
        "infinite": infinite,
        "both infinities": np.where(rng.random(500) < 0.3, -np.inf, infinite),
        "all infinite": np.full(500, np.inf),
        "wide": np.exp(200 * normal),
        "one": np.array([3.0]),
        "none": np.empty(0),
    }


def same_bits(found, expected, case=""):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype, case
    assert found.shape == expected.shape, case
    same = found.tobytes() == expected.tobytes()  # pytest would compare long bytes for minutes
    assert same, f"{case} {found} is not {expected}"


def reference(values, level, groups, n_groups):
    """Return the thresholds of the core."""
    return np.array([conformal_quantile(values[groups == code], level) for code in range(n_groups)])


# Thresholds


@pytest.mark.usefixtures("sort_limit")
def test_thresholds_equal_those_of_numpy(library):
    for case, values in score_cases().items():
        expected = conformal_quantile(values, LEVELS)
        found = conformal_quantile(library.array(values), LEVELS)
        same_bits(library.numpy(found), expected, case)
        same_bits(library.numpy(conformal_quantile(library.array(values), 0.8)), expected[2], case)


@pytest.mark.usefixtures("sort_limit")
@by_library_and("n", [1, 8, 9, 40], in_jax=[9])
def test_every_rank_is_exact(library, n):
    """Also the first and the last one, of sizes around the limit."""
    values = np.random.default_rng(n).normal(size=n)
    levels = [Fraction(rank, n + 1) for rank in range(1, n + 1)]
    for start in range(0, n, 10):  # more levels at once would all be sorted
        part = levels[start : start + 10]
        same_bits(library.numpy(conformal_quantile(library.array(values), part)), np.sort(values)[start : start + 10])


@pytest.mark.usefixtures("sort_limit")
@pytest.mark.parametrize("n_scanned", [64, 3])
def test_thresholds_of_groups_equal_those_of_numpy(library, n_scanned, monkeypatch):
    """Groups are scanned, or sorted if there are many. One group is empty, one has a single row."""
    monkeypatch.setattr(f"{SCORES}.MAX_GROUPS_TO_SCAN", n_scanned)
    rng = np.random.default_rng(1)
    groups = rng.choice([0, 1, 3, 4], 500)
    groups[0] = 5
    values = np.round(np.abs(rng.normal(size=500)) * (1 + groups), 2)
    expected = reference(values, LEVELS, groups, 8)
    found = thresholds(library.array(values), LEVELS, library.array(groups), 8)
    same_bits(library.numpy(found), expected)
    assert np.isinf(expected[[2, 6, 7]]).all()
    one_level = thresholds(library.array(values), 0.8, library.array(groups), 6)
    same_bits(library.numpy(one_level), expected[:6, 2])


@pytest.mark.parametrize("name", ["strict", "torch"])
@given(
    values=st.lists(st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, 2.0]), max_size=60),
    level=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_any_scores_have_the_thresholds_of_numpy(name, values, level, seed):
    array, values = LIBRARIES[name].array, np.array(values, dtype=float) + 0.0  # without −0.0
    groups = np.random.default_rng(seed).integers(0, 3, len(values))
    with mock.patch(f"{SELECTION}._MAX_SORTED", 5):
        found = thresholds(array(values), [level, 0.5], array(groups), 3)
    same_bits(found, reference(values, [level, 0.5], groups, 3))


@pytest.mark.parametrize("name", ["strict", "torch"])
def test_subnormal_scores_are_exact(name, monkeypatch):
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    values = np.random.default_rng(0).integers(0, 40, 500) * 5e-324
    same_bits(conformal_quantile(LIBRARIES[name].array(values), LEVELS), conformal_quantile(values, LEVELS))


def test_jax_on_a_cpu_takes_subnormal_scores_for_zero():
    """So its thresholds are off by at most the smallest normal number."""
    values = np.random.default_rng(0).integers(0, 40, 500) * 5e-324
    with jax.enable_x64(True):
        found = np.asarray(conformal_quantile(jax.numpy.asarray(values), LEVELS))
    assert np.abs(found - conformal_quantile(values, LEVELS)).max() <= np.finfo(float).tiny


@pytest.mark.usefixtures("sort_limit")
def test_float32_scores_have_float32_thresholds(library):
    values = np.random.default_rng(2).normal(size=500).astype(np.float32)
    found = library.numpy(conformal_quantile(library.array(values), LEVELS))
    same_bits(found, conformal_quantile(values, LEVELS).astype(np.float32))


def test_more_levels_than_are_selected_are_sorted_once(monkeypatch, sorted_sizes):
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    values, levels = np.random.default_rng(3).normal(size=1000), np.linspace(0.1, 0.9, 40)
    same_bits(conformal_quantile(array_api_strict.asarray(values), levels), conformal_quantile(values, levels))
    assert sorted_sizes == [1000]


# How the scores are selected


def test_only_a_sample_and_the_scores_next_to_the_threshold_are_sorted(sorted_sizes):
    values = np.random.default_rng(4).normal(size=200_000)
    same_bits(conformal_quantile(array_api_strict.asarray(values), [0.5, 0.9]), conformal_quantile(values, [0.5, 0.9]))
    assert len(sorted_sizes) == 3
    assert max(sorted_sizes) < 0.2 * len(values)


@pytest.mark.parametrize("level", [0.00001, 0.001, 0.999, 0.99999])
def test_extreme_levels_are_selected(level, sorted_sizes):
    """Beyond the ends of the sample, the bounds are infinite."""
    values = np.random.default_rng(5).normal(size=200_000)
    same_bits(conformal_quantile(array_api_strict.asarray(values), level), np.array(conformal_quantile(values, level)))
    assert max(sorted_sizes) < 0.05 * len(values)


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_ties_are_not_sorted(share, sorted_sizes):
    """Zeros, of which more than the sample can tell apart: the threshold is one of them, or a score above."""
    rng = np.random.default_rng(6)
    values = np.where(rng.random(200_000) < share, 0.0, rng.normal(size=200_000))
    levels = [0.2, 0.5, 0.9]
    found = conformal_quantile(array_api_strict.asarray(np.abs(values)), levels)
    same_bits(found, conformal_quantile(np.abs(values), levels))
    assert max(sorted_sizes) < 0.2 * len(values)


@pytest.mark.parametrize(
    ("low", "high"), list(combinations_with_replacement([-np.inf, -1.0, 0.0, 1.0, 2.0, 2.5, np.inf], 2))
)
@pytest.mark.parametrize("ends", [0, 2], ids=["finite", "infinite"])
def test_every_rank_is_found_whatever_the_bounds_are(low, high, ends, sorted_sizes, monkeypatch):
    """Only the scores between the bounds are sorted, unless the score of the rank is beyond them."""
    values = np.array([2.0, -1.0, 0.5, *[np.inf, -np.inf] * ends, 0.0, 1.5, 2.0, 0.0, 0.0, 3.0, -2.0, 1.0, 2.0])
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    bounds = array_api_strict.asarray(low), array_api_strict.asarray(high)
    monkeypatch.setattr(f"{SELECTION}._sample_bounds", lambda *_: bounds)
    for rank, expected in enumerate(np.sort(values).tolist(), start=1):
        sorted_sizes.clear()
        found = conformal_quantile(array_api_strict.asarray(values), Fraction(rank, len(values) + 1))
        assert float(found) == expected
        _, *sizes = sorted_sizes  # after that of the sample
        if low < expected < high:
            assert sizes == [((low < values) & (values < high)).sum()]
        else:
            assert sizes == ([] if expected in (low, high) else [len(values)])


def test_lengths_are_round():
    """At least n, not much more, and few different ones."""
    lengths = {n: round_length(n) for n in range(1, 20_000)}
    assert all(n <= length <= max(1024, 1.25 * n) for n, length in lengths.items())
    assert len(set(lengths.values())) <= 20


def misleading(n, sample):
    """Return scores whose strided sample has these values, and the others are standard normal."""
    values = np.random.default_rng(7).normal(size=n)
    values[:: round(n ** (1 / 3))] = sample
    return values


@pytest.mark.parametrize("sample", [-9.0, 9.0, 0.0], ids=["low", "high", "middle"])
def test_a_misleading_sample_makes_it_sort_all_scores(sample, sorted_sizes):
    values = misleading(200_000, sample)
    same_bits(conformal_quantile(array_api_strict.asarray(values), [0.3, 0.9]), conformal_quantile(values, [0.3, 0.9]))
    assert sorted_sizes.count(200_000) == 2


@pytest.mark.parametrize("sample", [-9.0, 9.0, 0.0, "extremes", "sorted"])
def test_a_misleading_sample_does_not_change_thresholds(library, sample, monkeypatch):
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    monkeypatch.setattr(f"{SELECTION}._STANDARD_DEVIATIONS", 1)
    extremes = np.resize([-9.0, 9.0], 63)  # of 500 scores, every 8th
    values = misleading(500, extremes if sample in ("extremes", "sorted") else sample)
    values = np.sort(values) if sample == "sorted" else values
    found = conformal_quantile(library.array(values), LEVELS)
    same_bits(library.numpy(found), conformal_quantile(values, LEVELS))


# Calibration against numpy


def rows(n=500, seed=0, dtype=np.float64):
    """Return targets and all parts of predictions, and groups; some bounds are crossed, and some targets tied.

    Most tests have 500 rows, because JAX compiles every function for each number of rows.
    """
    rng = np.random.default_rng(seed)
    center, spread = rng.normal(size=n) * 100, np.exp(rng.normal(size=n))
    y = np.round(center + spread * rng.normal(size=n), 1)
    lower, upper = center - spread * rng.uniform(-0.1, 2, n), center + spread * rng.uniform(-0.1, 2, n)
    parts = {"y": y, "center": center, "spread": spread, "lower": lower, "upper": upper}
    return {name: part.astype(dtype) for name, part in parts.items()}, rng.integers(0, 4, n)


def prediction_of(parts, score, array=np.asarray):
    """Return the prediction with the parts that a score uses."""
    inner = getattr(score, "score", score)
    names = {name for name in inner.prediction_parts if name != "center"}
    return Prediction(array(parts["center"]), **{name: array(parts[name]) for name in names})


SCORES_WITH_FORMULAS = [
    Residual(),
    Normalized(),
    Normalized(floor=0.5, epsilon=0.1, scale=1.0),
    Standardized(),
    IntervalDistance(),
    RelativeIntervalDistance(floor=0.1, scale=1.0),
    OneSided(Residual()),
    OneSided(IntervalDistance(), side="lower"),
]
BASIC_SCORES = [Residual(), Normalized(), IntervalDistance()]


def by_score(scores, *, in_jax=BASIC_SCORES):
    return by_library_and("score", scores, in_jax=in_jax)


@by_score(SCORES_WITH_FORMULAS)
@pytest.mark.parametrize("grouped", [False, True])
def test_calibrations_equal_those_of_numpy(library, score, grouped):
    """Scores, thresholds, bounds, widths, p-values, sizes, ties and the guarantee, at one level and at several."""
    parts, groups = rows()
    new, new_groups = rows(seed=1)
    groups, new_groups = (groups, new_groups) if grouped else (None, None)
    own_groups, own_new_groups = (None if each is None else library.array(each) for each in (groups, new_groups))
    expected = calibrate(parts["y"], prediction_of(parts, score), nonconformity=score, groups=groups)
    y, new_y = library.array(parts["y"]), library.array(new["y"])
    found = calibrate(y, prediction_of(parts, score, library.array), nonconformity=score, groups=own_groups)
    assert found.on_device
    assert not expected.on_device
    assert (found.nonconformity, found.sizes, found.labels) == (score, expected.sizes, expected.labels)
    assert str(found.guarantee) == str(expected.guarantee)
    same_bits(library.numpy(found.scores), expected.scores)
    prediction = prediction_of(new, score, library.array)
    for level in (0.5, LEVELS):
        same_bits(library.numpy(found.threshold(level)), expected.threshold(level))
        wanted = expected.interval(prediction_of(new, score), groups=new_groups, level=level)
        made = found.interval(prediction, groups=own_new_groups, level=level)
        same_bits(library.numpy(made.lower), wanted.lower)
        same_bits(library.numpy(made.upper), wanted.upper)
        same_bits(library.numpy(made.width), wanted.width)
        assert np.asarray(made.covers(new_y)).tolist() == wanted.covers(new["y"]).tolist()
        assert (made.guarantee.tied, made.side, made.level) == (wanted.guarantee.tied, wanted.side, wanted.level)
        assert repr(made) == repr(wanted)
        if score == IntervalDistance():
            assert wanted.empty.any()
    for seed in (None, 3):
        p_values = found.p_values(new_y, prediction, groups=own_new_groups, seed=seed)
        wanted = expected.p_values(new["y"], prediction_of(new, score), groups=new_groups, seed=seed)
        same_bits(library.numpy(p_values), wanted)


@by_score(BASIC_SCORES, in_jax=[Residual()])
def test_extreme_numbers_give_the_bounds_of_numpy(library, score):
    """Sums overflow, so margins are infinite and left out."""
    large = np.array([1e308, -1e308, 1.7e308, 1.0, 0.0, -3e-300, 5.0, 1e-5, -7.0, 2.0])
    parts = {"y": large[::-1].copy(), "center": large, "spread": np.full(10, 0.5)}
    parts |= {"lower": large / 2, "upper": large}
    with np.errstate(over="ignore"):
        expected = calibrate(parts["y"], prediction_of(parts, score), nonconformity=score)
        wanted = expected.interval(prediction_of(parts, score), level=[0.3, 0.9])
        prediction = prediction_of(parts, score, library.array)
        found = calibrate(library.array(parts["y"]), prediction, nonconformity=score)
        made = found.interval(prediction, level=[0.3, 0.9])
    same_bits(library.numpy(made.lower) + 0.0, wanted.lower + 0.0)
    same_bits(library.numpy(made.upper) + 0.0, wanted.upper + 0.0)


@by_score(BASIC_SCORES)
def test_float32_intervals_cover_targets_whose_score_is_the_threshold(library, score):
    """Each row is a group, whose threshold is its own score. The margin is that of float32, so rounding misses none."""
    parts, _ = rows(dtype=np.float32)
    prediction, each_row = prediction_of(parts, score, library.array), library.array(np.arange(500))
    found = calibrate(library.array(parts["y"]), prediction, nonconformity=score, groups=each_row)
    made = found.interval(prediction, groups=each_row, level=0.5)
    lower, upper = library.numpy(made.lower), library.numpy(made.upper)
    assert lower.dtype == upper.dtype == np.float32
    assert ((lower <= parts["y"]) & (parts["y"] <= upper)).all()
    distance = np.minimum(parts["y"] - lower, upper - parts["y"])
    assert (distance <= 1e-5 * np.abs(parts["center"]) + 1e-5).all()


@pytest.mark.parametrize("grouped", [True, False])
def test_float32_and_float64_give_float64(library, grouped):
    """Also without groups, where one threshold serves all rows."""
    parts, groups = rows()
    groups, single = (groups, parts["center"].astype(np.float32)) if grouped else (None, parts["center"].astype("f4"))
    own = None if groups is None else library.array(groups)
    found = calibrate(library.array(parts["y"]), library.array(single), groups=own)
    expected = calibrate(parts["y"], single, groups=groups)
    same_bits(library.numpy(found.threshold(0.9)), expected.threshold(0.9))
    made, wanted = found.interval(library.array(single), groups=own), expected.interval(single, groups=groups)
    same_bits(library.numpy(made.lower), wanted.lower)
    same_bits(library.numpy(made.upper), wanted.upper)


def test_whole_numbers_become_float64(library):
    y, center = np.arange(500) ** 2 % 17, np.arange(500)
    found = calibrate(library.array(y), library.array(center))
    same_bits(library.numpy(found.threshold(0.8)), calibrate(y, center).threshold(0.8))


@by_library_and(
    "dtype",
    [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.uint64],
    in_jax=[np.int8, np.uint64],  # and np.uint8 and np.uint32 in other tests
)
@pytest.mark.parametrize("n_scanned", [64, 2])
def test_groups_are_integers_of_any_type(library, dtype, n_scanned, monkeypatch):
    monkeypatch.setattr(f"{SCORES}.MAX_GROUPS_TO_SCAN", n_scanned)
    parts, groups = rows()
    y, center, codes = (library.array(each) for each in (parts["y"], parts["center"], groups.astype(dtype)))
    found = calibrate(y, center, groups=codes)
    expected = calibrate(parts["y"], parts["center"], groups=groups)
    same_bits(library.numpy(found.threshold(0.9)), expected.threshold(0.9))
    made, wanted = found.interval(center, groups=codes), expected.interval(parts["center"], groups=groups)
    same_bits(library.numpy(made.lower), wanted.lower)
    assert made.guarantee.tied == wanted.guarantee.tied
    same_bits(
        library.numpy(found.p_values(y, center, groups=codes)),
        expected.p_values(parts["y"], parts["center"], groups=groups),
    )
    assert found.sizes == expected.sizes


@pytest.mark.parametrize("n_scanned", [64, 2])
def test_ties_are_found_as_in_numpy(library, n_scanned, monkeypatch):
    """At the first and the last rank of a group, beside other groups with the same scores, and among infinite ones."""
    monkeypatch.setattr(f"{SCORES}.MAX_GROUPS_TO_SCAN", n_scanned)
    scores = np.array([1.0, 1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 5.0, 6.0, 6.0, 7.0, 7.0])
    groups = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
    found = calibrate(library.array(scores), library.array(np.zeros(12)), groups=library.array(groups))
    expected = calibrate(scores, np.zeros(12), groups=groups)
    for level in (0.25, 0.5, 0.75, [0.3, 0.6]):
        made = found.interval(library.array(np.zeros(4)), groups=library.array(np.arange(4)), level=level)
        wanted = expected.interval(np.zeros(4), groups=np.arange(4), level=level)
        assert made.guarantee.tied == wanted.guarantee.tied
    assert wanted.guarantee.tied


@pytest.mark.parametrize("unseen", ["inf", "marginal"])
def test_unseen_groups_are_treated_as_in_numpy(library, unseen):
    parts, groups = rows()
    new, new_groups = rows(seed=1)
    new_groups[::7] = 6
    y, center = library.array(parts["y"]), library.array(parts["center"])
    found = calibrate(y, center, groups=library.array(groups))
    expected = calibrate(parts["y"], parts["center"], groups=groups)
    options = {"groups": new_groups, "unseen": unseen}
    own = {"groups": library.array(new_groups), "unseen": unseen}
    made = found.interval(library.array(new["center"]), level=LEVELS, **own)
    wanted = expected.interval(new["center"], level=LEVELS, **options)
    same_bits(library.numpy(made.lower), wanted.lower)
    assert made.guarantee.without == wanted.guarantee.without == (6,)
    same_bits(
        library.numpy(found.p_values(library.array(new["y"]), library.array(new["center"]), **own)),
        expected.p_values(new["y"], new["center"], **options),
    )
    with pytest.raises(ValueError, match=r"groups must be among those of the calibration, \[0, 1, 2, 3\]; got \[6\]"):
        found.interval(library.array(new["center"]), groups=own["groups"])


def test_more_groups_than_a_type_can_count(library):
    """The codes are bytes, and most groups are empty."""
    codes = library.array(np.array([0, 255, 255], dtype=np.uint8))
    values = library.numpy(thresholds(library.array(np.array([3.0, 1.0, 2.0])), 0.5, codes, 1000))
    assert values.shape == (1000,)
    assert values[[0, 255]].tolist() == [3.0, 2.0]
    assert np.isinf(np.delete(values, [0, 255])).all()


@pytest.mark.usefixtures("sort_limit")
def test_no_rows_have_infinite_thresholds(library):
    empty, codes = library.array(np.empty(0)), library.array(np.empty(0, dtype=np.int64))
    found = calibrate(empty, empty, groups=Groups(codes, (0, 1)))
    with pytest.warns(TooFewRowsWarning):
        assert library.numpy(found.threshold(0.9)).tolist() == [np.inf, np.inf]
    assert found.sizes == {0: 0, 1: 0}
    made = found.interval(empty, groups=Groups(codes, (0, 1)))
    assert made.lower.shape == made.upper.shape == (0,)
    assert found.p_values(empty, empty, groups=Groups(codes, (0, 1))).shape == (0,)


def test_thresholds_are_found_once(sorted_sizes):
    parts, _ = rows()
    y, center = array_api_strict.asarray(parts["y"]), array_api_strict.asarray(parts["center"])
    found = calibrate(y, center)
    for _ in range(3):
        found.interval(center, level=0.9)
        found.threshold(0.9)
    assert sorted_sizes == [500]
    found.threshold(0.8)
    assert sorted_sizes == [500, 500]


# What else a calibration can do


def on_torch(grouped=True):
    """Return a calibration of torch and the same of numpy."""
    parts, groups = rows()
    groups = groups if grouped else None
    own = None if groups is None else torch.asarray(groups)
    found = calibrate(torch.asarray(parts["y"]), torch.asarray(parts["center"]), groups=own)
    return found, calibrate(parts["y"], parts["center"], groups=groups)


@pytest.mark.parametrize("grouped", [False, True])
def test_saved_calibrations_are_those_of_numpy(tmp_path, grouped):
    found, expected = on_torch(grouped)
    found.save(tmp_path / "calibration")
    loaded = Calibration.load(tmp_path / "calibration")
    assert not loaded.on_device
    same_bits(loaded.scores, expected.scores)
    same_bits(loaded.threshold(LEVELS), expected.threshold(LEVELS))
    assert loaded.sizes == expected.sizes


def test_sql_is_that_of_numpy():
    found, expected = on_torch()
    for unseen in ("null", "marginal"):
        options = {"dialect": "duckdb", "center": "c", "group": "g", "unseen": unseen}
        assert found.to_sql(0.9, **options) == expected.to_sql(0.9, **options)


def test_merged_calibrations_have_the_rows_of_all():
    found, expected = on_torch()
    merged = found.merge(found, found)
    same_bits(merged.threshold(LEVELS).numpy(), expected.merge(expected, expected).threshold(LEVELS))
    with pytest.raises(ValueError, match="merge needs calibrations with the same on_device; got True and False"):
        found.merge(expected)


def test_a_calibration_can_be_pickled():
    found, expected = on_torch()
    found.threshold(0.9)
    same_bits(pickle.loads(pickle.dumps(found)).threshold(0.9), expected.threshold(0.9))  # noqa: S301


def test_a_calibration_and_its_intervals_can_be_printed():
    found, expected = on_torch()
    assert repr(found) == repr(expected)
    codes = torch.zeros(3, dtype=torch.uint8)
    assert repr(found.interval(torch.zeros(3), groups=codes)) == repr(expected.interval(np.zeros(3), groups=[0, 0, 0]))


def test_intervals_become_arrays_of_numpy_and_can_be_selected():
    made = on_torch(grouped=False)[0].interval(torch.arange(5.0, dtype=torch.float64))
    wanted = on_torch(grouped=False)[1].interval(np.arange(5.0))
    same_bits(np.asarray(made), np.asarray(wanted))
    for selection in (slice(1, 3), torch.tensor([0, 2]), torch.arange(5) > 2):
        part = made[selection]
        assert isinstance(part, Intervals)
        same_bits(part.lower.numpy(), wanted.lower[np.asarray(selection) if torch.is_tensor(selection) else selection])
    assert made.n_replaced == 0


def test_metrics_pictures_and_tables_use_arrays_of_numpy():
    """Of intervals and targets on a device, also by group."""
    parts, groups = rows()
    found, expected = on_torch()
    y, codes = torch.asarray(parts["y"]), torch.asarray(groups)
    made = found.interval(torch.asarray(parts["center"]), groups=codes)
    wanted = expected.interval(parts["center"], groups=groups)
    assert evencover.coverage(y, made) == evencover.coverage(parts["y"], wanted)
    assert evencover.mean_width(made) == evencover.mean_width(wanted)
    assert evencover.coverage_by_group(y, made) == evencover.coverage_by_group(parts["y"], wanted)
    assert evencover.interval_score(y, made) == evencover.interval_score(parts["y"], wanted)
    assert misses_by_group(y, made, codes) == misses_by_group(parts["y"], wanted, groups)
    assert evencover.audit(y, made).table == evencover.audit(parts["y"], wanted).table
    same_bits(made.clip(low=0.0).lower, wanted.clip(low=0.0).lower)
    same_bits(made.nearest(y), wanted.nearest(parts["y"]))
    assert made._repr_html_() == wanted._repr_html_()
    assert made.to_frame(like=pd.DataFrame(index=range(500))).equals(wanted.to_frame(pd.DataFrame(index=range(500))))
    assert len(made.plot(y).collections) == len(wanted.plot(parts["y"]).collections)
    plt.close("all")


def test_predictions_on_a_device_have_all_their_parts(library):
    parts, _ = rows()
    arrays = {name: library.array(part) for name, part in parts.items()}
    made, wanted = (Prediction(each["center"], each["spread"]) for each in (arrays, parts))
    same_bits(library.numpy(made.lower), wanted.lower)
    same_bits(library.numpy(made.upper), wanted.upper)
    made, wanted = (Prediction.from_quantiles(each["lower"], each["upper"]) for each in (arrays, parts))
    np.testing.assert_array_max_ulp(library.numpy(made.spread), wanted.spread, 1)  # JAX multiplies by the inverse
    assert made.crossings == wanted.crossings > 0
    assert repr(made) == repr(wanted)
    host = made.on_host()
    same_bits(host.center, wanted.center)
    same_bits(host.lower, wanted.lower)
    joined = Prediction.concatenate([made, made[:10]])
    same_bits(library.numpy(joined.center), np.concatenate([wanted.center, wanted.center[:10]]))


def test_models_may_predict_tensors():
    """What a model predicts is used as arrays of numpy, whatever it returns."""

    class Tensors(Ridge):
        def predict_full(self, X):
            center = torch.asarray(self.predict(X))
            return Prediction(center, torch.ones_like(center))

    X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200.0)
    model = ConformalRegressor(Tensors(), nonconformity=Normalized(), taxonomy=BySpread(3), random_state=0).fit(X, y)
    assert isinstance(model.predict_interval(X).lower, np.ndarray)


def test_targets_and_groups_on_a_device_join_predictions_of_numpy():
    """The prediction decides where the calibration is."""
    parts, groups = rows()
    found = calibrate(torch.asarray(parts["y"]), parts["center"], groups=torch.asarray(groups))
    same_bits(found.threshold(0.9), calibrate(parts["y"], parts["center"], groups=groups).threshold(0.9))


def test_an_own_score_with_formulas_works_on_every_device_and_in_sql(library):
    @dataclass(frozen=True)
    class Doubled:
        """Twice the residual."""

        prediction_parts = ("center",)

        def __call__(self, y, prediction):
            return self.formula(np.asarray(y), prediction)

        def formula(self, y, prediction):
            return abs(y - prediction.center) * 2.0

        def ends(self, threshold, prediction):
            distance = prediction.arithmetic.widened(threshold / 2.0, prediction.center)
            return prediction.center - distance, prediction.center + distance

        def interval(self, threshold, prediction):
            return Intervals(*self.ends(threshold, prediction))

    parts, _ = rows()
    y, center = library.array(parts["y"]), library.array(parts["center"])
    made = calibrate(y, center, nonconformity=Doubled()).interval(center)
    expected = calibrate(parts["y"], parts["center"], nonconformity=Doubled())
    same_bits(library.numpy(made.upper), expected.interval(parts["center"]).upper)
    assert expected.to_sql(dialect="duckdb", center="c").upper is not None


# Groups by edges


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bins_at_given_edges_are_those_of_numpy(library, dtype):
    """Also of values that equal an edge, and of float32, of which 0.1 and 0.7 are rounded up and down."""
    edges = [0.1, 0.25, 0.7, 3.0]
    values = np.concatenate([np.random.default_rng(0).exponential(size=492), edges, edges]).astype(dtype)
    values[-4:] = np.nextafter(values[-4:], dtype(np.inf))
    zeros = np.zeros(len(values), dtype=dtype)
    expected = BySpread(edges=edges).assign(Rows(Prediction(zeros, values)))
    found = BySpread(edges=edges).learn(Rows(Prediction(library.array(zeros), library.array(values))))
    assert library.numpy(found.codes).tolist() == expected.codes.tolist()
    assert (found.labels, found.rules) == (expected.labels, expected.rules)
    assert found.counts.tolist() == expected.counts.tolist()
    assert set(expected.codes) == {0, 1, 2, 3, 4}


def test_bins_of_half_precision():
    """The nearest numbers to the edges are rounded up and down."""
    edges = [0.1, 0.7]
    values = torch.cat([torch.linspace(0.05, 1, 300), torch.tensor(edges)]).to(torch.bfloat16)
    expected = np.searchsorted(edges, values.to(torch.float64).numpy(), side="left")
    found = ByPrediction(edges=edges).assign(Rows(Prediction(values)))
    assert found.codes.tolist() == expected.tolist()


@pytest.mark.parametrize("calibrator", [ByGroup(BySpread(edges=[0.5, 2.0])), TwoTails(), ByGroup()])
def test_calibrators_learn_from_rows_on_a_device(library, calibrator):
    parts, _ = rows()
    new, _ = rows(seed=1)
    levels = level_fractions([0.5, 0.9])
    arrays = {name: library.array(part) for name, part in parts.items()}
    learned = calibrator.learn(Rows(Prediction(arrays["center"], arrays["spread"]), y=arrays["y"]), Normalized())
    expected = calibrator.learn(Rows(Prediction(parts["center"], parts["spread"]), y=parts["y"]), Normalized())
    fresh = Rows(Prediction(library.array(new["center"]), library.array(new["spread"])), y=library.array(new["y"]))
    wanted = Rows(Prediction(new["center"], new["spread"]), y=new["y"])
    same_bits(library.numpy(learned.intervals(fresh, levels).lower), expected.intervals(wanted, levels).lower)
    same_bits(library.numpy(learned.p_values(fresh)), expected.p_values(wanted))


# Devices


def run_everything(array):
    """Use every function on arrays of which no large one may be copied to the host."""
    parts, _ = rows()
    arrays = {name: array(part) for name, part in parts.items()}
    prediction = Prediction(arrays["center"], arrays["spread"])
    groups = BySpread(edges=[0.5, 2.0]).learn(Rows(prediction))
    found = calibrate(arrays["y"], prediction, nonconformity=Normalized(), groups=groups)
    found.threshold(LEVELS)
    bounds = Prediction.from_quantiles(arrays["lower"], arrays["upper"])
    conformal_quantile(IntervalDistance()(arrays["y"], bounds), 0.9)
    made = found.interval(prediction, groups=groups, level=LEVELS)
    assert made.covers(arrays["y"]).shape == made.width.shape == (500, 5)
    assert found.p_values(arrays["y"], prediction, groups=groups).shape == (500,)
    return made.lower, made.upper


@pytest.mark.usefixtures("sort_limit")
@pytest.mark.parametrize("n_scanned", [64, 2])
def test_torch_copies_nothing_to_the_host(n_scanned, monkeypatch):
    monkeypatch.setattr(f"{SCORES}.MAX_GROUPS_TO_SCAN", n_scanned)

    def forbidden(*_, **__):
        raise AssertionError("copied to the host")

    for name in ("numpy", "cpu", "__array__", "__dlpack__", "__iter__"):
        monkeypatch.setattr(torch.Tensor, name, forbidden)
    with pytest.raises(AssertionError, match="copied"):
        np.asarray(torch.zeros(3))
    lower, upper = run_everything(torch.asarray)
    assert lower.shape == upper.shape == (500, 5)


@pytest.mark.usefixtures("sort_limit")
def test_jax_copies_only_numbers_to_the_host(monkeypatch):
    to_numpy = np.asarray

    def small_only(array, *args, **options):
        assert not isinstance(array, jax.Array) or array.size <= 16, "copied to the host"
        return to_numpy(array, *args, **options)

    monkeypatch.setattr(np, "asarray", small_only)
    with pytest.raises(AssertionError, match="copied"):
        jax.numpy.zeros(30)[jax.numpy.zeros(30) > 1]  # why rows are selected by their positions
    with jax.enable_x64(True):
        lower, _ = run_everything(jax.numpy.asarray)
    assert lower.shape == (500, 5)


@pytest.mark.parametrize("n_scanned", [64, 1])
def test_results_stay_on_the_device(n_scanned, monkeypatch):
    """The strict library has several devices, and an error for arrays of two."""
    monkeypatch.setattr(f"{SCORES}.MAX_GROUPS_TO_SCAN", n_scanned)
    device = array_api_strict.Device("device1")
    parts, groups = rows()
    arrays = {name: array_api_strict.asarray(part, device=device) for name, part in parts.items()}
    codes = array_api_strict.asarray(groups, device=device)
    found = calibrate(arrays["y"], arrays["center"], groups=codes)
    intervals = found.interval(arrays["center"], groups=codes, level=[0.5, 0.9])
    spread = Prediction(arrays["center"], arrays["spread"])
    made = [found.scores, found.threshold(0.9), intervals.lower, intervals.upper, intervals.width, intervals.replaced]
    made += [intervals.covers(arrays["y"]), found.p_values(arrays["y"], arrays["center"], groups=codes)]
    made += [BySpread(edges=[1.0]).learn(Rows(spread)).codes, spread.lower]
    with mock.patch(f"{SELECTION}._MAX_SORTED", 8):
        made.append(conformal_quantile(arrays["y"], [0.9, 0.9999]))
    assert {each.device for each in made} == {device}


def test_jax_without_float64_works_in_float32():
    """No warning: nothing asks for 64 bits."""
    parts, groups = rows(dtype=np.float32)
    y, center, codes = (jax.numpy.asarray(each) for each in (parts["y"], parts["center"], groups.astype(np.uint32)))
    found = calibrate(y, center, groups=codes)
    residuals = np.abs(parts["y"] - parts["center"])
    same_bits(found.threshold(0.9), reference(residuals, 0.9, groups, 4).astype(np.float32))
    assert found.p_values(y, center, groups=codes).dtype == np.float32


# Warnings and errors


def test_groups_with_too_few_rows_are_warned_of_as_in_numpy(library):
    parts, _ = rows()
    groups = np.repeat([0, 1, 2], [490, 5, 5])
    found = calibrate(library.array(parts["y"]), library.array(parts["center"]), groups=library.array(groups))
    expected = calibrate(parts["y"], parts["center"], groups=groups)

    def texts(call):
        with pytest.warns(TooFewRowsWarning) as caught:
            call()
        return [str(each.message) for each in caught]

    assert texts(lambda: found.threshold(0.9)) == texts(lambda: expected.threshold(0.9))
    new, center = np.repeat([0, 2], 250), library.array(np.zeros(500))
    assert texts(lambda: found.interval(center, groups=library.array(new))) == texts(
        lambda: expected.interval(np.zeros(500), groups=new)
    )
    made = found.interval(center, groups=library.array(np.zeros(500, dtype=int)))
    assert np.isfinite(library.numpy(made.lower)).all()


def a(*values):
    return array_api_strict.asarray(np.array(values))


Y, NAN = a(1.0, 2.0, 3.0), a(1.0, np.nan, np.inf)
G = a(0, 1, 1)
ELSEWHERE = array_api_strict.asarray(Y, device=array_api_strict.Device("device1"))
SPREAD = Prediction(Y, Y)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: calibrate([1.0, 2.0, 3.0], Y), TypeError, "y must be an array ... got list"),
        (lambda: Prediction(Y, [1.0, 2.0, 3.0]), TypeError, "spread must be an array ... got list"),
        (lambda: calibrate(np.zeros(3), torch.zeros(3)), TypeError, "one library ... prediction: torch, y: numpy"),
        (lambda: Prediction(Y, lower=torch.zeros(3), upper=Y), TypeError, "one library ... center: array_api_strict, lower: torch"),
        (lambda: calibrate(Y, Y, groups=jax.numpy.zeros(3, dtype=int)), TypeError, "one library ... prediction: array_api_strict, groups: jax"),
        (lambda: calibrate(Y, Y, groups=["a", "b", "b"]), TypeError, "groups must be an array on the device ... whole numbers ... got list"),
        (lambda: calibrate(Y, Y, groups=Groups.from_labels(["a", "b", "b"])), TypeError, "one library ... prediction: array_api_strict, groups: numpy"),
        (lambda: calibrate(Y, ELSEWHERE), ValueError, "one device ... prediction: array_api_strict.Device('device1'), y: array_api_strict.Device('CPU_DEVICE')"),
        (lambda: calibrate(Y, Y).interval(ELSEWHERE), ValueError, "one device ... calibration: array_api_strict.Device('CPU_DEVICE') ... prediction: array_api_strict.Device('device1')"),
        (lambda: calibrate(Y, Y).interval([1.0, 2.0]), TypeError, "one library ... calibration: array_api_strict ... prediction: numpy"),
        (lambda: calibrate([1.0, 2.0], [1.0, 2.0]).interval(Y), TypeError, "one library ... calibration: numpy ... prediction: array_api_strict"),
        (lambda: calibrate(Y, Y).p_values(Y, [1.0, 2.0, 3.0]), TypeError, "one library ... calibration: array_api_strict ... prediction: numpy"),
        (lambda: calibrate(Y, Y).interval(Y, level=0.5).covers([1.0, 2.0, 3.0]), TypeError, "y must be an array ... got list"),
        (lambda: calibrate(a(1.0, 2.0), Y), ValueError, "y must have 3 rows, as many as the prediction; got 2"),
        (lambda: calibrate(array_api_strict.zeros((3, 1)), Y), ValueError, "y must be one-dimensional, of shape (n,); got shape (3, 1)"),
        (lambda: calibrate(Y, array_api_strict.asarray(1.0)), ValueError, "center must be one-dimensional, of shape (n,); got shape ()"),
        (lambda: calibrate(array_api_strict.asarray([1j, 2j, 3j]), Y), TypeError, "y must hold numbers; got an array of dtype array_api_strict.complex128"),
        (lambda: calibrate(NAN, Y), ValueError, "y must be finite ... 2 of 3 ... row 1"),
        (lambda: calibrate(Y, NAN), ValueError, "center must be finite ... 2 of 3 ... row 1"),
        (lambda: Prediction(Y, NAN), ValueError, "spread must be finite ... 2 of 3 ... row 1"),
        (lambda: calibrate(Y, Prediction(Y, a(1.0, 0.0, -1.0)), nonconformity=Normalized()), ValueError, "Normalized divides by the spread, which must be positive; zero or negative values: 2 of 3"),
        (lambda: Prediction(Y, a(1.0, 0.0, -1.0)).lower, ValueError, "spread must not be negative ... negative values: 1 of 3"),
        (lambda: calibrate(Y, Y, nonconformity=Normalized()), ValueError, "Normalized needs a prediction with a spread"),
        (lambda: calibrate(Y, SPREAD, nonconformity=ProbabilityDistance()), ValueError, "on a device, nonconformity must be one score for all groups, with formulas ... got ProbabilityDistance"),
        (lambda: calibrate(Y, SPREAD, nonconformity=Bounded(y_min=0)), ValueError, "with formulas ... got Bounded"),
        (lambda: calibrate(Y, SPREAD, nonconformity={0: Residual(), 1: Normalized()}, groups=G), ValueError, "nonconformity must be one score for all groups"),
        (lambda: Prediction(Y, quantiles=[[1.0, 2.0]] * 3, probabilities=[0.1, 0.9]), TypeError, "quantiles need a center that is an array of numpy; got one on a device, of type Array"),
        (lambda: calibrate(Y, Y, weights=[1.0, 1.0, 1.0]), ValueError, "weights: not possible for arrays on a device"),
        (lambda: calibrate(Y, Y, clusters=[1, 1, 2], bits=8), ValueError, "clusters, bits: not possible for arrays on a device"),
        (lambda: conformal_quantile(Y, 0.9, weights=[1.0, 1.0, 1.0], test_weight=1.0), ValueError, "weights must be None for scores on a device"),
        (lambda: conformal_quantile(a(np.inf, np.nan, 1.0), 0.9), ValueError, "scores must be free of NaN ... 1 of 3 ... row 1"),
        (lambda: conformal_quantile(Y, 90), ValueError, "level must lie strictly between 0 and 1; got 90; did you mean 0.9?"),
        (lambda: calibrate(Y, Y, groups=a(0.0, 1.0, 1.0)), TypeError, "groups on a device must hold whole numbers 0, 1, 2, ...; got an array of dtype array_api_strict.float64"),
        (lambda: calibrate(Y, Y, groups=a(True, False, True)), TypeError, "groups on a device must hold whole numbers 0, 1, 2, ...; got an array of dtype array_api_strict.bool"),
        (lambda: calibrate(Y, Y, groups=a(0, 1)), ValueError, "groups must have 3 rows, as many as the prediction; got 2"),
        (lambda: calibrate(Y, Y, groups=a(0, -1, 5)), ValueError, "groups must be whole numbers from 0 to 5; got -1 to 5"),
        (lambda: Groups(a(0, 1, 5), (0, 1, 2)), ValueError, "groups must be whole numbers from 0 to 2; got 0 to 5"),
        (lambda: calibrate(Y, Y, groups=G).interval(a(1.0, 2.0)), ValueError, "groups must be given: the calibration has the groups [0, 1]"),
        (lambda: calibrate(Y, Y).interval(Y, groups=G), ValueError, "groups were given ... calibration has none"),
        (lambda: BySpread(3).learn(Rows(SPREAD)), ValueError, "bins of the spread need edges for arrays on a device"),
        (lambda: calibrate(Y, Y, bits=8), ValueError, "bits: not possible"),
        (lambda: calibrate(Y, Y).interval(Y, weights=[1.0, 1.0, 1.0]), ValueError, "weights must be given for both calibration and new rows"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_clear_error(call, error, message):
    with pytest.raises(error, match=facts(message)):
        call()


def test_unsigned_codes_beyond_all_groups_are_an_error():
    """Also those that would be group 0 in fewer bits."""
    for library in LIBRARIES.values():
        with library.context():
            codes = library.array(np.array([0, 2**32, 2**63], dtype=np.uint64))
            with pytest.raises(ValueError, match="groups must be whole numbers"):
                Groups(codes, (0, 1))


def test_arrays_of_numpy_load_no_other_library():
    names = ["torch", "jax", "cupy", "pandas", "scipy", "sklearn", "narwhals", "array_api_compat"]
    code = (
        "import sys, numpy as np\nfrom evencover import calibrate\n"
        "found = calibrate(np.arange(20.0), np.zeros(20), groups=np.arange(20) % 2)\n"
        "found.interval(np.zeros(2), groups=np.array([0, 1]), level=0.5), found.guarantee, found.sizes\n"
        f"print([name for name in {names} if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(
        ImportError,
        match=r"an array that is not of numpy needs array_api_compat: pip install 'evencover\[arrays\]'",
    ):
        conformal_quantile(Y, 0.9)


# Parts that were wrong once


@pytest.mark.parametrize("score", [Residual(), Normalized(), IntervalDistance(), OneSided(Residual())])
def test_one_threshold_for_all_rows_is_a_number(library, score):
    parts, _ = rows()
    made = score.interval(1.5, prediction_of(parts, score, library.array))
    wanted = score.interval(1.5, prediction_of(parts, score))
    same_bits(library.numpy(made.lower), wanted.lower)
    same_bits(library.numpy(made.upper), wanted.upper)


def test_p_values_of_half_precision_count_in_single_precision():
    """The largest float16 is 65 504."""
    y = torch.linspace(0, 1, 70_000, dtype=torch.float64).to(torch.float16)
    found = calibrate(y, torch.zeros_like(y))
    p_values = found.p_values(torch.tensor([0.0, 0.9], dtype=torch.float16), torch.zeros(2, dtype=torch.float16))
    assert p_values.dtype == torch.float32
    assert p_values.tolist() == [1.0, pytest.approx(0.1, abs=0.001)]


def test_bfloat16_can_be_shown_and_saved(tmp_path):
    y = torch.linspace(-2, 2, 99).to(torch.bfloat16)
    found = calibrate(y, torch.zeros_like(y))
    found.save(tmp_path / "calibration")
    threshold = float(found.threshold(0.9)[0])
    assert Calibration.load(tmp_path / "calibration").threshold(0.9).tolist() == [threshold]
    made = found.interval(torch.zeros(3, dtype=torch.bfloat16))
    assert "3 rows" in repr(made)
    assert evencover.coverage([0.0, 0.0, 9.0], made) == pytest.approx(2 / 3)


def test_products_of_groups_do_not_overflow(library):
    """Codes of one byte, of 20 groups each."""
    codes = np.arange(400) % 20, np.arange(400) // 20
    made = [Groups(library.array(each.astype(np.uint8)), tuple(range(20))) for each in codes]
    wanted = [Groups(each, tuple(range(20))) for each in codes]
    assert library.numpy(made[0].product(made[1]).codes).tolist() == wanted[0].product(wanted[1]).codes.tolist()


@pytest.mark.parametrize("n", [8, 200])
def test_rows_of_unseen_groups_are_warned_of_and_tied_as_in_numpy(library, n):
    """If they are compared with all calibration rows."""
    y, zeros = np.repeat(np.arange(n / 2), 2), np.zeros(n)
    found = calibrate(library.array(y), library.array(zeros), groups=library.array(np.zeros(n, dtype=int)))
    expected = calibrate(y, zeros, groups=np.zeros(n, dtype=int))

    def told(calibration, array):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = calibration.interval(array(np.zeros(2)), groups=array(np.array([5, 5])), unseen="marginal")
        return [str(each.message) for each in caught], made.guarantee.tied

    assert told(found, library.array) == told(expected, np.asarray)


def test_tails_on_a_device_can_be_saved():
    parts, _ = rows()
    prediction = Prediction(torch.asarray(parts["center"]), torch.asarray(parts["spread"]))
    learned = TwoTails().learn(Rows(prediction, y=torch.asarray(parts["y"])), Normalized())
    assert all(isinstance(values, np.ndarray) for name, values in learned.state().items() if "scores" in name)


def test_a_calibration_without_groups_has_no_thresholds():
    none = Groups(torch.zeros(0, dtype=torch.int64), ())
    assert calibrate(torch.zeros(0), torch.zeros(0), groups=none).threshold([0.5, 0.9]).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate(Y, Y, groups=a(0, 1, 3_000_000)), "numbered 0, 1, 2, ... largest of 3 rows is 3000000"),
        (lambda: SPREAD.cdf(1.0), "a predicted distribution needs arrays of numpy; use prediction.on_host()"),
        (lambda: SPREAD.ppf(0.5), "a predicted distribution needs arrays of numpy; use prediction.on_host()"),
        (lambda: ByGroup(ByTarget(edges=[2.0])).learn(Rows(SPREAD, y=Y), Residual()), "groups of the target need arrays"),
        (lambda: ByGroup(ByFeature(0)).learn(Rows(SPREAD, X=[["u"], ["v"], ["v"]], y=Y), Residual()), "one library ... prediction: array_api_strict, the groups: numpy"),
    ],
)  # fmt: skip
def test_what_a_device_cannot_do_is_one_clear_error(call, message):
    with pytest.raises((ValueError, TypeError), match=facts(message)):
        call()
