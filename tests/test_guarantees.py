"""Guarantees: lower bounds and texts."""

from fractions import Fraction

import pytest

from evencover import Guarantee
from evencover.guarantees import LowerBound

SIZES = {"all": 99}


@pytest.mark.parametrize("kind", ["marginal", "per group", "conditional"])
def test_the_level_is_guaranteed_by_default(kind):
    assert Guarantee(kind, SIZES).lower_bound(0.9) == Fraction(9, 10)
    assert "with probability at least the level. This holds if" in str(Guarantee(kind, SIZES))


@pytest.mark.parametrize("kind", ["approximate", "none"])
def test_approximate_coverage_has_no_lower_bound(kind):
    assert Guarantee(kind, SIZES).lower_bound(0.9) == 0


def test_the_lower_bound_is_a_function_of_the_level():
    """Such as the bound of CV+: the factor 2, and a slack."""
    bound = LowerBound(factor=2, slack=Fraction(1, 100))
    assert [bound(level) for level in (0.9, 0.95, 0.2)] == [Fraction(79, 100), Fraction(89, 100), 0]
    guarantee = Guarantee("approximate", SIZES, bound=bound)
    assert "with probability usually about the level, and at least 1 − 2 (1 − level) − 0.01. This holds if" in str(
        guarantee
    )


def test_text_starts_with_the_kind_and_ends_with_assumption_and_rows():
    text = str(Guarantee("conditional", {"all": 5}, assumption="the noise is normal"))
    assert text.startswith("Conditional coverage: given the features of a row, a target lies in its interval")
    assert text.endswith("This holds if the noise is normal. Calibration rows: 5.")
    assert (
        str(Guarantee("approximate", SIZES, assumption="A holds")).count("about the level. This holds if A holds") == 1
    )
    assert str(Guarantee("per group", {"a": 3})).endswith("Calibration rows: a 3.")
    assert str(Guarantee("none", {})) == "No guarantee: there are no groups."
    assert str(Guarantee("none", SIZES)) == "No guarantee."
