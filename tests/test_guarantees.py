"""What is promised, in numbers and in words."""

from fractions import Fraction

import pytest

from evencover import Guarantee
from evencover.guarantees import LowerBound

SIZES = {"all": 99}


@pytest.mark.parametrize("kind", ["marginal", "per group", "conditional"])
def test_the_level_is_promised_by_default(kind):
    assert Guarantee(kind, SIZES).lower_bound(0.9) == Fraction(9, 10)
    assert "with probability at least the level, if" in str(Guarantee(kind, SIZES))


@pytest.mark.parametrize("kind", ["approximate", "none"])
def test_nothing_is_promised_by_what_holds_only_about(kind):
    assert Guarantee(kind, SIZES).lower_bound(0.9) == 0


def test_the_bound_is_a_function_of_the_level():
    """That of CV+: twice the misses, and a little more."""
    bound = LowerBound(factor=2, slack=Fraction(1, 100))
    assert [bound(level) for level in (0.9, 0.95, 0.2)] == [Fraction(79, 100), Fraction(89, 100), 0]
    promise = Guarantee("approximate", SIZES, bound=bound)
    assert "with probability about the level, and at least 1 − 2 (1 − level) − 0.01, if" in str(promise)


def test_the_kind_and_the_assumption_are_said_first_and_last():
    said = str(Guarantee("conditional", {"all": 5}, assumption="the sun shines"))
    assert said.startswith("Conditional coverage: given the features of a row, a target lies in its interval")
    assert said.endswith("if the sun shines. Calibration rows: 5.")
    assert str(Guarantee("approximate", SIZES, assumption="so")).count("about the level, if so") == 1
    assert str(Guarantee("per group", {"a": 3})).endswith("Calibration rows: a 3.")
    assert str(Guarantee("none", {})) == "Nothing is promised: there are no groups."
    assert str(Guarantee("none", SIZES)) == "Nothing is promised."
