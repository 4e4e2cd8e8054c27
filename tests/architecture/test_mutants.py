"""The list of planted faults (make mutants) fits the code."""

import ast
from collections import Counter

import pytest

from tests.architecture.tree import ROOT
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
