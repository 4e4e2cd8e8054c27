"""A fresh install is the program that was tested: each dependency of the wheel ends before its next version that may break it."""

import tomllib
from collections.abc import Iterator
from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = {
    canonicalize_name(line.partition("==")[0]): line.partition("==")[2]
    for line in (ROOT / "infra/constraints.txt").read_text().splitlines()
    if "==" in line
}


def _of_users() -> Iterator[Requirement]:
    """Yield what the wheel asks for, alone and with each extra of a user."""
    extras = PROJECT["optional-dependencies"]
    listed = [PROJECT["dependencies"], *(extras[name] for name in extras if name != "dev")]
    each = (Requirement(text) for texts in listed for text in texts)
    yield from (
        wanted for wanted in each if wanted.name != PROJECT["name"]
    )  # an extra that has another one


@pytest.mark.parametrize("wanted", [*_of_users()], ids=str)
def test_each_dependency_has_bounds_and_the_pinned_version_is_within(wanted: Requirement) -> None:
    """A version above the bounds is one that no test has seen; DuckDB 2 answered no question about a version."""
    kinds = {each.operator for each in wanted.specifier}
    pin = PINS[canonicalize_name(wanted.name)]

    assert kinds & {"<", "=="}, f"{wanted} has no upper bound"
    assert wanted.specifier.contains(pin), f"{wanted} leaves out {pin}, which the tests know"
    assert version(wanted.name) == pin


def test_the_next_major_version_of_each_is_out_of_bounds() -> None:
    """By the number that its makers would give it; of a calendar's versions by the year after next."""
    for wanted in _of_users():
        major = int(PINS[canonicalize_name(wanted.name)].split(".")[0])
        following = f"{major + 2 if major > 20 else major + 1}.0.0"

        assert not wanted.specifier.contains(following), f"{wanted} takes {following}"


def test_the_installed_project_says_the_same() -> None:
    """What pip reads is what is written here."""
    installed = {str(Requirement(each.partition(";")[0])) for each in requires("strandline") or ()}

    assert {str(each) for each in _of_users()} <= installed
