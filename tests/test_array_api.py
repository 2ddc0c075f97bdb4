"""Arrays of any library against numpy and the core, bit for bit; nothing is copied to the host."""

import os
import pickle
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any
from unittest import mock

import array_api_compat.numpy
import array_api_strict
import jax
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import evencover
from evencover import BySpread, IntervalDistance, Normalized, Prediction, Residual, Rows, TooFewRowsWarning
from evencover.array_api import ArrayCalibration, calibrate, groups_by_edges, scores, thresholds
from evencover.array_api.array_thresholds import _round_length as round_length
from tests.messages import facts

SELECTION = "evencover.array_api.array_thresholds"
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
    "numpy": Library("numpy", np.asarray, np.ndarray),
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
        monkeypatch.setattr("evencover.array_api.array_thresholds.on_cpu", lambda _: False)
    else:
        monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", request.param)
    return request.param


@pytest.fixture
def sorted_sizes(monkeypatch):
    """The sizes of all arrays that are sorted by the array API of numpy."""
    sizes, sort = [], array_api_compat.numpy.sort
    monkeypatch.setattr(array_api_compat.numpy, "sort", lambda x, **options: sizes.append(len(x)) or sort(x, **options))
    return sizes


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
    return np.array([evencover.conformal_quantile(values[groups == code], level) for code in range(n_groups)])


# Thresholds


@pytest.mark.usefixtures("sort_limit")
def test_thresholds_equal_those_of_numpy(library):
    for case, values in score_cases().items():
        expected = evencover.conformal_quantile(values, LEVELS)
        found = thresholds(library.array(values), LEVELS)
        same_bits(library.numpy(found), expected[None], case)
        same_bits(library.numpy(thresholds(library.array(values), 0.8)), expected[2:3], case)


@pytest.mark.usefixtures("sort_limit")
@by_library_and("n", [1, 8, 9, 40], in_jax=[9])
def test_every_rank_is_exact(library, n):
    """Also the first and the last one, of sizes around the limit."""
    values = np.random.default_rng(n).normal(size=n)
    levels = [Fraction(rank, n + 1) for rank in range(1, n + 1)]
    for start in range(0, n, 10):  # more levels at once would all be sorted
        part = levels[start : start + 10]
        same_bits(library.numpy(thresholds(library.array(values), part))[0], np.sort(values)[start : start + 10])


@pytest.mark.usefixtures("sort_limit")
@pytest.mark.parametrize("n_scanned", [64, 3])
def test_thresholds_of_groups_equal_those_of_numpy(library, n_scanned, monkeypatch):
    """Groups are scanned, or sorted if there are many. One group is empty, one has a single row."""
    monkeypatch.setattr("evencover.array_api.array_thresholds._MAX_GROUPS_TO_SCAN", n_scanned)
    rng = np.random.default_rng(1)
    groups = rng.choice([0, 1, 3, 4], 500)
    groups[0] = 5
    values = np.round(np.abs(rng.normal(size=500)) * (1 + groups), 2)
    expected = reference(values, LEVELS, groups, 8)
    found = thresholds(library.array(values), LEVELS, groups=library.array(groups), n_groups=8)
    same_bits(library.numpy(found), expected)
    assert np.isinf(expected[[2, 6, 7]]).all()
    one_level = thresholds(library.array(values), 0.8, groups=library.array(groups))
    same_bits(library.numpy(one_level), expected[:6, 2])


@pytest.mark.parametrize("name", ["numpy", "strict", "torch"])
@given(
    values=st.lists(st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, 2.0]), max_size=60),
    level=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_any_scores_have_the_thresholds_of_numpy(name, values, level, seed):
    array, values = LIBRARIES[name].array, np.array(values, dtype=float) + 0.0  # without −0.0
    groups = np.random.default_rng(seed).integers(0, 3, len(values))
    with mock.patch(f"{SELECTION}._MAX_SORTED", 5):
        found = thresholds(array(values), [level, 0.5], groups=array(groups), n_groups=3)
    same_bits(found, reference(values, [level, 0.5], groups, 3))


@pytest.mark.parametrize("name", ["numpy", "strict", "torch"])
def test_subnormal_scores_are_exact(name, monkeypatch):
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    values = np.random.default_rng(0).integers(0, 40, 500) * 5e-324
    same_bits(thresholds(LIBRARIES[name].array(values), LEVELS), evencover.conformal_quantile(values, LEVELS)[None])


def test_jax_on_a_cpu_takes_subnormal_scores_for_zero():
    """So its thresholds are off by at most the smallest normal number."""
    values = np.random.default_rng(0).integers(0, 40, 500) * 5e-324
    with jax.enable_x64(True):
        found = np.asarray(thresholds(jax.numpy.asarray(values), LEVELS))[0]
    assert np.abs(found - evencover.conformal_quantile(values, LEVELS)).max() <= np.finfo(float).tiny


@pytest.mark.usefixtures("sort_limit")
def test_float32_scores_have_float32_thresholds(library):
    values = np.random.default_rng(2).normal(size=500).astype(np.float32)
    found = library.numpy(thresholds(library.array(values), LEVELS))
    same_bits(found[0], evencover.conformal_quantile(values, LEVELS).astype(np.float32))


def test_more_levels_than_are_selected_are_sorted_once(monkeypatch, sorted_sizes):
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    values, levels = np.random.default_rng(3).normal(size=1000), np.linspace(0.1, 0.9, 40)
    same_bits(thresholds(values, levels), evencover.conformal_quantile(values, levels)[None])
    assert sorted_sizes == [1000]


# How the scores are selected


def test_only_a_sample_and_the_scores_next_to_the_threshold_are_sorted(sorted_sizes):
    values = np.random.default_rng(4).normal(size=200_000)
    same_bits(thresholds(values, [0.5, 0.9]), evencover.conformal_quantile(values, [0.5, 0.9])[None])
    assert len(sorted_sizes) == 3
    assert max(sorted_sizes) < 0.2 * len(values)


@pytest.mark.parametrize("level", [0.00001, 0.001, 0.999, 0.99999])
def test_extreme_levels_are_selected(level, sorted_sizes):
    """Beyond the ends of the sample, the bounds are infinite."""
    values = np.random.default_rng(5).normal(size=200_000)
    same_bits(thresholds(values, level), np.array([evencover.conformal_quantile(values, level)]))
    assert max(sorted_sizes) < 0.05 * len(values)


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_ties_are_not_sorted(share, sorted_sizes):
    """Zeros, of which more than the sample can tell apart: the threshold is one of them, or a score above."""
    rng = np.random.default_rng(6)
    values = np.where(rng.random(200_000) < share, 0.0, rng.normal(size=200_000))
    levels = [0.2, 0.5, 0.9]
    same_bits(thresholds(np.abs(values), levels), evencover.conformal_quantile(np.abs(values), levels)[None])
    assert max(sorted_sizes) < 0.2 * len(values)


@pytest.mark.parametrize(
    ("low", "high"), list(combinations_with_replacement([-np.inf, -1.0, 0.0, 1.0, 2.0, 2.5, np.inf], 2))
)
@pytest.mark.parametrize("ends", [0, 2], ids=["finite", "infinite"])
def test_every_rank_is_found_whatever_the_bounds_are(low, high, ends, sorted_sizes, monkeypatch):
    """Only the scores between the bounds are sorted, unless the score of the rank is beyond them."""
    values = np.array([2.0, -1.0, 0.5, *[np.inf, -np.inf] * ends, 0.0, 1.5, 2.0, 0.0, 0.0, 3.0, -2.0, 1.0, 2.0])
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    monkeypatch.setattr(f"{SELECTION}._sample_bounds", lambda *_: (np.float64(low), np.float64(high)))
    for rank, expected in enumerate(np.sort(values).tolist(), start=1):
        sorted_sizes.clear()
        found = thresholds(values, Fraction(rank, len(values) + 1))
        assert found.item() == expected
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
    same_bits(thresholds(values, [0.3, 0.9]), evencover.conformal_quantile(values, [0.3, 0.9])[None])
    assert sorted_sizes.count(200_000) == 2


@pytest.mark.parametrize("sample", [-9.0, 9.0, 0.0, "extremes", "sorted"])
def test_a_misleading_sample_does_not_change_thresholds(library, sample, monkeypatch):
    monkeypatch.setattr(f"{SELECTION}._MAX_SORTED", 8)
    monkeypatch.setattr(f"{SELECTION}._STANDARD_DEVIATIONS", 1)
    extremes = np.resize([-9.0, 9.0], 63)  # of 500 scores, every 8th
    values = misleading(500, extremes if sample in ("extremes", "sorted") else sample)
    values = np.sort(values) if sample == "sorted" else values
    found = thresholds(library.array(values), LEVELS)
    same_bits(library.numpy(found)[0], evencover.conformal_quantile(values, LEVELS))


# Calibration against the core


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


PARTS = {
    Residual(): ("center",),
    Normalized(): ("center", "spread"),
    IntervalDistance(): ("lower", "upper"),
}
BY_SCORE = pytest.mark.parametrize(("score", "names"), PARTS.items(), ids=lambda each: type(each).__name__)


def core_calibration(parts, names, groups=None):
    """Return the calibration of the core."""
    prediction = core_prediction(parts, names)
    score = next(score for score, its_names in PARTS.items() if its_names == names)
    return evencover.calibrate(parts["y"], prediction, nonconformity=score, groups=groups)


def core_prediction(parts, names):
    return Prediction(parts["center"], **{name: parts[name] for name in names if name != "center"})


@BY_SCORE
@pytest.mark.parametrize("grouped", [False, True])
def test_calibrations_equal_those_of_the_core(library, score, names, grouped):
    """Scores, thresholds, bounds, sizes and the guarantee, at one level and at several."""
    parts, groups = rows()
    new, new_groups = rows(seed=1)
    groups, new_groups = (groups, new_groups) if grouped else (None, None)
    core = core_calibration(parts, names, groups)
    on_device = {name: library.array(parts[name]) for name in names}
    own_groups = None if groups is None else library.array(groups)
    found = calibrate(library.array(parts["y"]), **on_device, groups=own_groups)
    assert found.nonconformity == score
    assert found.sizes == core.sizes
    assert str(found.guarantee) == str(core.guarantee)
    assert found.guarantee.coverage(0.9) == core.guarantee.coverage(0.9)
    same_bits(library.numpy(found.scores), core.scores)
    same_bits(library.numpy(scores(library.array(parts["y"]), **on_device)), core.scores)
    for level in (0.5, LEVELS):
        same_bits(library.numpy(found.threshold(level)), core.threshold(level))
        expected = core.interval(core_prediction(new, names), groups=new_groups, level=level)
        lower, upper = found.interval(
            **{name: library.array(new[name]) for name in names},
            groups=None if new_groups is None else library.array(new_groups),
            level=level,
        )
        same_bits(library.numpy(lower), expected.lower)
        same_bits(library.numpy(upper), expected.upper)
        if score == IntervalDistance():
            assert expected.empty.any()


@BY_SCORE
def test_extreme_numbers_give_the_bounds_of_the_core(library, score, names):
    """Sums overflow, so margins are infinite and left out."""
    large = np.array([1e308, -1e308, 1.7e308, 1.0, 0.0, -3e-300, 5.0, 1e-5, -7.0, 2.0])
    parts = {"y": large[::-1].copy(), "center": large, "spread": np.full(10, 0.5)}
    parts |= {"lower": large / 2, "upper": large}
    with np.errstate(over="ignore"):
        core = core_calibration(parts, names)
        expected = core.interval(core_prediction(parts, names), level=[0.3, 0.9])
        found = calibrate(library.array(parts["y"]), **{name: library.array(parts[name]) for name in names})
        lower, upper = found.interval(**{name: library.array(parts[name]) for name in names}, level=[0.3, 0.9])
    same_bits(library.numpy(lower) + 0.0, expected.lower + 0.0)
    same_bits(library.numpy(upper) + 0.0, expected.upper + 0.0)


@BY_SCORE
def test_float32_intervals_cover_targets_whose_score_is_the_threshold(library, score, names):
    """Each row is a group, whose threshold is its own score. The margin is that of float32, so rounding misses none."""
    parts, _ = rows(dtype=np.float32)
    arrays = {name: library.array(parts[name]) for name in names}
    each_row = library.array(np.arange(500))
    found = calibrate(library.array(parts["y"]), **arrays, groups=each_row)
    lower, upper = (library.numpy(bound) for bound in found.interval(**arrays, groups=each_row, level=0.5))
    assert lower.dtype == upper.dtype == np.float32
    assert ((lower <= parts["y"]) & (parts["y"] <= upper)).all()
    distance = np.minimum(parts["y"] - lower, upper - parts["y"])
    assert (distance <= 1e-5 * np.abs(parts["center"]) + 1e-5).all()


def test_float32_and_float64_give_float64(library):
    parts, groups = rows()
    single = parts["center"].astype(np.float32)
    found = calibrate(library.array(parts["y"]), library.array(single), groups=library.array(groups))
    expected = evencover.calibrate(parts["y"], single, groups=groups)
    same_bits(library.numpy(found.threshold(0.9)), expected.threshold(0.9))
    lower, _ = found.interval(library.array(single), groups=library.array(groups))
    same_bits(library.numpy(lower), expected.interval(single, groups=groups).lower)


def test_a_float32_prediction_keeps_the_type_of_a_float64_threshold(library):
    """Also without groups, where one threshold serves all rows."""
    parts, _ = rows()
    single = parts["center"].astype(np.float32)
    lower, upper = calibrate(library.array(parts["y"]), library.array(single)).interval(library.array(single))
    expected = evencover.calibrate(parts["y"], single).interval(single)
    same_bits(library.numpy(lower), expected.lower)
    same_bits(library.numpy(upper), expected.upper)


def test_whole_numbers_become_float64(library):
    y, center = np.arange(500) ** 2 % 17, np.arange(500)
    found = calibrate(library.array(y), library.array(center))
    same_bits(library.numpy(found.threshold(0.8)), evencover.calibrate(y, center).threshold(0.8))


@by_library_and(
    "dtype",
    [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint32, np.uint64],
    in_jax=[np.int8, np.uint64],  # and np.uint8 and np.uint32 in other tests
)
@pytest.mark.parametrize("n_scanned", [64, 2])
def test_groups_are_integers_of_any_type(library, dtype, n_scanned, monkeypatch):
    monkeypatch.setattr("evencover.array_api.array_thresholds._MAX_GROUPS_TO_SCAN", n_scanned)
    parts, groups = rows()
    y, center, codes = (library.array(each) for each in (parts["y"], parts["center"], groups.astype(dtype)))
    found, expected = (
        calibrate(y, center, groups=codes),
        evencover.calibrate(parts["y"], parts["center"], groups=groups),
    )
    same_bits(library.numpy(found.threshold(0.9)), expected.threshold(0.9))
    lower, _ = found.interval(center, groups=codes)
    same_bits(library.numpy(lower), expected.interval(parts["center"], groups=groups).lower)
    assert found.sizes == expected.sizes


def test_more_groups_than_a_type_can_count(library):
    """The codes are bytes, and most groups are empty."""
    codes = library.array(np.array([0, 255, 255], dtype=np.uint8))
    found = thresholds(library.array(np.array([3.0, 1.0, 2.0])), 0.5, groups=codes, n_groups=1000)
    values = library.numpy(found)
    assert values.shape == (1000,)
    assert values[[0, 255]].tolist() == [3.0, 2.0]
    assert np.isinf(np.delete(values, [0, 255])).all()


def test_no_rows_have_infinite_thresholds(library):
    empty = library.array(np.empty(0))
    found = calibrate(empty, empty, groups=library.array(np.empty(0, dtype=np.int64)), n_groups=2)
    with pytest.warns(TooFewRowsWarning):
        assert library.numpy(found.threshold(0.9)).tolist() == [np.inf, np.inf]
    assert found.sizes == {0: 0, 1: 0}
    lower, upper = found.interval(empty, groups=library.array(np.empty(0, dtype=np.int64)))
    assert lower.shape == upper.shape == (0,)


def test_thresholds_are_found_once(sorted_sizes):
    parts, _ = rows()
    found = calibrate(parts["y"], parts["center"])
    for _ in range(3):
        found.interval(parts["center"], level=0.9)
        found.threshold(0.9)
    assert sorted_sizes == [500]
    found.threshold(0.8)
    assert sorted_sizes == [500, 500]


def test_a_calibration_can_be_pickled():
    parts, groups = rows()
    found = calibrate(parts["y"], parts["center"], groups=groups)
    expected = found.threshold(0.9)
    same_bits(pickle.loads(pickle.dumps(found)).threshold(0.9), expected)  # noqa: S301


def test_a_calibration_shows_its_score_and_sizes():
    found = calibrate(np.arange(5.0), np.zeros(5), groups=np.array([0, 0, 1, 1, 1]))
    assert repr(found) == "ArrayCalibration(Residual(); rows: 0 2, 1 3)"


# Groups by edges


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_groups_by_edges_are_those_of_by_spread(library, dtype):
    """Also of values that equal an edge, and of float32, of which 0.1 and 0.7 are rounded up and down."""
    edges = [0.1, 0.25, 0.7, 3.0]
    values = np.concatenate([np.random.default_rng(0).exponential(size=492), edges, edges]).astype(dtype)
    values[-4:] = np.nextafter(values[-4:], dtype(np.inf))
    expected = BySpread(edges=edges).assign(Rows(Prediction(np.zeros(len(values)), spread=values))).codes
    found = library.numpy(groups_by_edges(library.array(values), edges))
    assert found.tolist() == expected.tolist()
    assert set(expected) == {0, 1, 2, 3, 4}


def test_groups_by_edges_of_half_precision():
    """The nearest numbers to the edges are rounded up and down."""
    edges = [0.1, 0.7]
    values = torch.cat([torch.linspace(0.05, 1, 300), torch.tensor(edges)]).to(torch.bfloat16)
    expected = np.searchsorted(edges, values.to(torch.float64).numpy(), side="left")
    assert groups_by_edges(values, edges).tolist() == expected.tolist()


def test_groups_by_edges_are_groups_of_a_calibration(library):
    parts, _ = rows()
    groups = groups_by_edges(library.array(parts["spread"]), [0.5, 2.0])
    found = calibrate(library.array(parts["y"]), library.array(parts["center"]), groups=groups, n_groups=3)
    prediction = Prediction(parts["center"], parts["spread"])
    expected = BySpread(edges=[0.5, 2.0]).assign(Rows(prediction))
    core = evencover.calibrate(parts["y"], prediction, groups=expected)
    same_bits(library.numpy(found.threshold(0.9)), core.threshold(0.9))


# Devices


def run_everything(array):
    """Use every function on arrays of which no large one may be copied to the host."""
    parts, _ = rows()
    arrays = {name: array(part) for name, part in parts.items()}
    groups = groups_by_edges(arrays["spread"], [0.5, 2.0])
    found = calibrate(arrays["y"], arrays["center"], spread=arrays["spread"], groups=groups)
    found.threshold(LEVELS)
    thresholds(scores(arrays["y"], lower=arrays["lower"], upper=arrays["upper"]), 0.9)
    return found.interval(arrays["center"], spread=arrays["spread"], groups=groups, level=LEVELS)


@pytest.mark.usefixtures("sort_limit")
@pytest.mark.parametrize("n_scanned", [64, 2])
def test_torch_copies_nothing_to_the_host(n_scanned, monkeypatch):
    monkeypatch.setattr("evencover.array_api.array_thresholds._MAX_GROUPS_TO_SCAN", n_scanned)

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


def test_results_stay_on_the_device():
    """The strict library has several devices, and an error for arrays of two."""
    device = array_api_strict.Device("device1")
    parts, groups = rows()
    arrays = {name: array_api_strict.asarray(part, device=device) for name, part in parts.items()}
    codes = array_api_strict.asarray(groups, device=device)
    found = calibrate(arrays["y"], arrays["center"], groups=codes)
    bounds = found.interval(arrays["center"], groups=codes, level=[0.5, 0.9])
    made = [found.scores, found.threshold(0.9), *bounds, groups_by_edges(arrays["spread"], [1.0])]
    made.append(thresholds(arrays["spread"], 0.9, groups=groups_by_edges(arrays["spread"], [1.0])))
    assert {each.device for each in made} == {device}
    with mock.patch("evencover.array_api.array_thresholds._MAX_GROUPS_TO_SCAN", 1):
        assert thresholds(arrays["y"], 0.9, groups=codes).device == device
    with mock.patch(f"{SELECTION}._MAX_SORTED", 8):
        assert thresholds(arrays["y"], [0.9, 0.9999]).device == device


def test_jax_without_float64_works_in_float32():
    """No warning: nothing asks for 64 bits."""
    parts, groups = rows(dtype=np.float32)
    y, center, codes = (jax.numpy.asarray(each) for each in (parts["y"], parts["center"], groups.astype(np.uint32)))
    found = calibrate(y, center, groups=codes).threshold(0.9)
    residuals = np.abs(parts["y"] - parts["center"])
    same_bits(found, reference(residuals, 0.9, groups, 4).astype(np.float32))


# Warnings and errors


def test_groups_with_too_few_rows_are_warned_of_as_in_the_core(library):
    parts, _ = rows()
    groups = np.repeat([0, 1, 2], [490, 5, 5])
    found = calibrate(library.array(parts["y"]), library.array(parts["center"]), groups=library.array(groups))
    core = evencover.calibrate(parts["y"], parts["center"], groups=groups)

    def texts(call):
        with pytest.warns(TooFewRowsWarning) as caught:
            call()
        return [str(each.message) for each in caught]

    assert texts(lambda: found.threshold(0.9)) == texts(lambda: core.threshold(0.9))
    new, center = np.repeat([0, 2], 250), library.array(np.zeros(500))
    assert texts(lambda: found.interval(center, groups=library.array(new))) == texts(
        lambda: core.interval(np.zeros(500), groups=new)
    )
    lower, _ = found.interval(center, groups=library.array(np.zeros(500, dtype=int)))
    assert np.isfinite(library.numpy(lower)).all()


def a(*values):
    return np.array(values)


Y, NAN = a(1.0, 2.0, 3.0), a(1.0, np.nan, np.inf)
G = a(0, 1, 1)
STRICT = array_api_strict.asarray(Y)
ELSEWHERE = array_api_strict.asarray(Y, device=array_api_strict.Device("device1"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: calibrate([1.0], Y), TypeError, "y must be an array ... got list"),
        (lambda: calibrate(Y, 1.0), TypeError, "center must be an array ... got float"),
        (lambda: calibrate(Y, torch.zeros(3)), TypeError, "one library ... y: numpy, center: torch"),
        (lambda: calibrate(STRICT, Y, groups=jax.numpy.zeros(3)), TypeError, "one library ... y: array_api_strict, center: numpy, groups: jax"),
        (lambda: calibrate(STRICT, ELSEWHERE), ValueError, "one device ... y: array_api_strict.Device('CPU_DEVICE'), center: array_api_strict.Device('device1')"),
        (lambda: calibrate(STRICT, STRICT).interval(ELSEWHERE), ValueError, "one device ... center: array_api_strict.Device('device1') ... calibration: array_api_strict.Device('CPU_DEVICE')"),
        (lambda: calibrate(Y), ValueError, "predictions must have a center, or lower and upper; got neither"),
        (lambda: calibrate(Y, spread=Y), ValueError, "predictions must have a center, or lower and upper; got neither"),
        (lambda: calibrate(Y, lower=Y), ValueError, "lower and upper must be given together; got only one of them"),
        (lambda: calibrate(Y, Y, spread=Y, lower=Y, upper=Y), ValueError, "predictions must have a spread, or lower and upper; got both"),
        (lambda: calibrate(a(1.0, 2.0), Y), ValueError, "center must have 2 rows, as many as y; got 3"),
        (lambda: calibrate(np.zeros((3, 1)), Y), ValueError, "y must be one-dimensional, of shape (n,); got shape (3, 1)"),
        (lambda: calibrate(Y, np.float64(1.0)), ValueError, "center must be one-dimensional, of shape (n,); got shape ()"),
        (lambda: calibrate(Y * 1j, Y), TypeError, "y must hold numbers; got an array of dtype complex128"),
        (lambda: calibrate(a("a", "b"), a(1.0, 2.0)), TypeError, "y must hold numbers; got an array of dtype <U1"),
        (lambda: calibrate(NAN, Y), ValueError, "y must be finite ... 2 of 3 ... row 1"),
        (lambda: calibrate(Y, NAN), ValueError, "center must be finite ... 2 of 3 ... row 1"),
        (lambda: calibrate(Y, Y, spread=NAN), ValueError, "spread must be finite ... 2 of 3 ... row 1"),
        (lambda: calibrate(Y, Y, spread=a(1.0, 0.0, -1.0)), ValueError, "spread must be positive; zero or negative values: 2 of 3"),
        (lambda: thresholds(a(np.inf, np.nan, 1.0), 0.9), ValueError, "scores must be free of NaN ... 1 of 3 ... row 1"),
        (lambda: thresholds(Y, 90), ValueError, "level must lie strictly between 0 and 1; got 90; did you mean 0.9?"),
        (lambda: thresholds(Y, []), ValueError, "level must be one level or several; got an empty sequence"),
        (lambda: thresholds(Y, 0.9, groups=a(0.0, 1.0, 1.0)), TypeError, "groups must hold whole numbers 0, 1, 2, ...; got an array of dtype float64"),
        (lambda: thresholds(Y, 0.9, groups=a(True, False, True)), TypeError, "groups must hold whole numbers 0, 1, 2, ...; got an array of dtype bool"),
        (lambda: thresholds(Y, 0.9, groups=a(0, 1)), ValueError, "groups must have 3 rows, as many as scores; got 2"),
        (lambda: thresholds(Y, 0.9, groups=a(0, -1, 5)), ValueError, "groups must be whole numbers from 0 to 5; got -1 to 5"),
        (lambda: thresholds(Y, 0.9, groups=a(-2, -1, -1)), ValueError, "groups must be whole numbers from 0 to 0; got -2 to -1"),
        (lambda: thresholds(Y, 0.9, groups=a(0, 1, 5), n_groups=5), ValueError, "groups must be whole numbers from 0 to 4; got 0 to 5"),
        (lambda: thresholds(Y, 0.9, groups=G, n_groups=0), ValueError, "n_groups must be a positive whole number; got 0"),
        (lambda: thresholds(Y, 0.9, n_groups=2), ValueError, "n_groups needs groups, the group of each row; got n_groups=2 and no groups"),
        (lambda: thresholds(Y[:0], 0.9, groups=G[:0]), ValueError, "n_groups must be given if groups have no rows"),
        (lambda: calibrate(Y, Y, groups=G).interval(a(1.0, 2.0)), ValueError, "groups must be given: the calibration has 2 groups"),
        (lambda: calibrate(Y, Y).interval(Y, groups=G), ValueError, "groups were given ... calibration has none"),
        (lambda: calibrate(Y, Y, groups=G).interval(Y, groups=a(0, 1, 2)), ValueError, "groups must be whole numbers from 0 to 1; got 0 to 2"),
        (lambda: calibrate(Y, Y, spread=Y).interval(Y), ValueError, "score Normalized(floor=0.0, scale=None, epsilon=0.0) ... belong to Residual() ... center, spread, lower and upper"),
        (lambda: calibrate(Y, Y, spread=Y).interval(Y, spread=a(1.0, 2.0)), ValueError, "spread must have 3 rows, as many as center; got 2"),
        (lambda: groups_by_edges(Y, [2.0, 1.0]), ValueError, "edges must be strictly increasing; got [2.0, 1.0]"),
        (lambda: groups_by_edges(NAN, [2.0]), ValueError, "values must be finite ... 2 of 3 ... row 1"),
        (lambda: groups_by_edges([1.0], [2.0]), TypeError, "values must be an array ... got list"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_clear_error(call, error, message):
    with pytest.raises(error, match=facts(message)):
        call()


def test_unsigned_codes_beyond_all_groups_are_an_error():
    """Also those that would be group 0 in fewer bits."""
    for library in LIBRARIES.values():
        with library.context():
            values, codes = library.array(Y), library.array(np.array([0, 2**32, 2**63], dtype=np.uint64))
            with pytest.raises(ValueError, match="groups must be whole numbers"):
                thresholds(values, 0.9, groups=codes, n_groups=2)


def test_importing_loads_nothing_but_numpy():
    names = ["torch", "jax", "cupy", "pandas", "scipy", "sklearn", "narwhals", "array_api_compat"]
    code = f"import sys, evencover.array_api; print([name for name in {names} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_calibration_loads_neither_scipy_nor_scikit_learn():
    code = (
        "import sys, numpy as np\nfrom evencover.array_api import calibrate\n"
        "found = calibrate(np.arange(20.0), np.zeros(20), groups=np.arange(20) % 2)\n"
        "found.interval(np.zeros(2), groups=np.array([0, 1]), level=0.5), found.guarantee, found.sizes\n"
        "print([name for name in ('scipy', 'sklearn', 'pandas') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(
        ImportError, match=r"evencover.array_api needs array_api_compat: pip install 'evencover\[arrays\]'"
    ):
        thresholds(Y, 0.9)


def test_a_calibration_can_be_made_of_scores(library):
    """With the score that they are of."""
    values = np.random.default_rng(0).exponential(size=500)
    found = ArrayCalibration(Residual(), library.array(values))
    same_bits(library.numpy(found.threshold(0.9)), np.array([evencover.conformal_quantile(values, 0.9)]))
