"""Worlds against their own truth."""

import numpy as np
from scipy.stats import kstest

from evencover.synthetic import heteroskedastic
from tests.worlds import ONE_IN_A_MILLION


def test_standardised_noise_is_standard_normal_at_every_noise_level():
    sample = heteroskedastic(30_000, seed=0)
    noise = (sample.y - sample.mean) / sample.spread
    for rows in np.array_split(np.argsort(sample.spread), 3):
        assert kstest(noise[rows], "norm").pvalue > ONE_IN_A_MILLION
    np.testing.assert_array_equal(sample.oracle().center, sample.mean)


def test_the_seed_decides():
    assert np.array_equal(heteroskedastic(10, seed=1).y, heteroskedastic(10, seed=1).y)
    assert not np.array_equal(heteroskedastic(10, seed=1).y, heteroskedastic(10, seed=2).y)
