"""The mutations fit the source as it is: each of them changes one place, to code that Python can read."""

import ast

from tests.mutations import MUTATIONS, REPOSITORY, SOURCE

EVERY = [mutation for mutations in MUTATIONS.values() for mutation in mutations]


def test_there_are_enough_mutations_of_enough_kinds():
    assert len({(each.file, each.old, each.new) for each in EVERY}) >= 60
    assert len(MUTATIONS) >= 8


def test_each_changes_one_place_and_can_be_parsed():
    """`applied` raises an error if the old text is not there, or more than once."""
    for mutation in EVERY:
        text = (REPOSITORY / SOURCE / mutation.file).read_text()
        assert mutation.new != mutation.old
        ast.parse(mutation.applied(text))


def test_hints_are_test_files():
    hints = {hint for mutation in EVERY for hint in mutation.hints.split()}
    assert {hint for hint in hints if not (REPOSITORY / "tests" / f"{hint}.py").is_file()} == set()
