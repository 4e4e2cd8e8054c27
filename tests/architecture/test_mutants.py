"""The list of planted faults (make mutants) fits the code."""

import ast
from collections import Counter

import pytest

from tests.architecture.tree import ROOT
from tests.mutants.drawn import Drawn, again, drawn, faults, planted
from tests.mutants.mutant import Mutant
from tests.mutants.planted import MUTANTS

AT_LEAST = 25


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_fault_can_be_planted_and_leaves_a_module_that_can_be_read(mutant: Mutant) -> None:
    """Its text occurs once, so that nothing else is changed; and a module with a syntax error would fail every test."""
    text = (ROOT / mutant.file).read_text()

    assert text.count(mutant.old) == 1
    ast.parse(text.replace(mutant.old, mutant.new))
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text()


def test_there_are_many_of_them_over_the_whole_engine() -> None:
    """A fault in one place proves nothing about another."""
    rooms = Counter("/".join(mutant.file.split("/")[:4]) for mutant in MUTANTS)

    assert len(MUTANTS) >= AT_LEAST
    assert len(rooms) >= 8


TEXT = """
def spread(values):
    if len(values) < 2 and values:
        return 0
    for each in values:
        total = each + 1
    return total


class Book:
    def is_even(self):
        return self.left == self.right
"""


def test_each_fault_that_is_drawn_changes_the_one_statement_that_it_names() -> None:
    """One that changed nothing, or more than a reader is shown, would say nothing about the tests."""
    found = list(faults("jobs/x.py", TEXT))
    plain = ast.unparse(ast.parse(TEXT)).splitlines()

    assert {each.function for each in found} == {"spread", "Book.is_even"}
    assert len(found) == 8
    for each in found:
        lines = planted(TEXT, each).splitlines()
        changed = [pair for pair in zip(plain, lines, strict=True) if pair[0] != pair[1]]
        assert len(changed) == 1, each
        assert changed[0][1].strip() == each.after.splitlines()[0], each


def test_a_seed_draws_the_same_faults_and_another_seed_others() -> None:
    """A report names its seed, so that who reads it can draw them too."""
    texts = {"jobs/x.py": TEXT}

    assert drawn(texts, 4, 1) == drawn(texts, 4, 1)
    assert len({tuple(drawn(texts, 4, seed)) for seed in range(9)}) > 1


def test_a_fault_is_planted_again_where_its_function_is_today() -> None:
    """After modules were merged the same faults must be noticed as before."""
    first = next(iter(faults("jobs/x.py", TEXT)))

    (found,) = again([first], {"jobs/y.py": f"import os\n{TEXT}"})

    assert found == Drawn("jobs/y.py", first.function, first.before, first.after)
