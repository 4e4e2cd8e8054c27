"""The house is counted by a program of the repository; its figures are those of the files, and nothing is counted twice."""

from dataclasses import astuple, replace

import pytest

from tests.architecture import house
from tests.architecture.house import Lines, Module
from tests.architecture.tree import ROOT

LEDGER = '''"""A docstring
of two lines."""

import json
from strandline.engine.lake.log.ledger import (
    Kind,
)

# A reason.
TEXT = """
# no comment

"""
"""What it is."""


def _text(path: str) -> None:
    """Return nothing."""
    for action in actions(path, Kind.ADD, Kind.REMOVE):
        Entry(table=action)
'''
MODE = """from strandline.engine.lake.log import ledger

class _Hop:
    def run(self, mode):
        match mode:
            case Batch():
                return isinstance(mode, MicroBatch)
            case _:
                return isinstance(mode, str)
"""
PLACE = "jobs/strandline/engine/lake/log/ledger.py"
HOP = "jobs/strandline/engine/flow/hop.py"


@pytest.fixture
def small() -> list[Module]:
    """Return two modules of two rooms."""
    return [Module(PLACE, LEDGER), Module(HOP, MODE)]


def test_each_line_is_of_one_kind(small: list[Module]) -> None:
    """A longer text is code, however its lines look; a text that only says what a name is, is none."""
    ledger, _ = small

    assert house.counted(ledger) == Lines(
        modules=1, lines=20, code=7, docstrings=4, imports=4, comments=1, blanks=4
    )


def test_what_is_spread_is_found_with_its_place(small: list[Module]) -> None:
    """A figure without its lines is argued about, and one with them is looked up."""
    assert house.entries(small) == [f"{PLACE}:20"]
    assert house.walks(small) == [f"{PLACE}:17"]
    assert house.asked_modes(small) == [f"{HOP}:5", f"{HOP}:7"]
    assert house.of_one(small) == small[:1]


def test_a_private_name_and_a_folder_count_from_a_number_on(small: list[Module]) -> None:
    """Five may be chance; a name of a method is its class's own matter."""
    many = [
        replace(small[0], name=f"jobs/strandline/core/part_{number}.py") for number in range(21)
    ]

    assert house.private_names(many[:5]) == {}
    assert house.private_names([*many[:6], *small[1:]]) == {"_text": 6}
    assert house.full_folders(many[:20]) == {}
    assert house.full_folders(many) == {"jobs/strandline/core": 21}


FOLDERS = ("jobs/strandline/engine/lake", "orchestration/strandline_dagster", "tests/properties")
"""Enough of the house: all of it takes five seconds of a core."""


def test_its_page_sums_up_what_the_files_have() -> None:
    """Each line of each file is in one room and of one kind, and two pages are compared, so each says of what it is."""
    some = house.at("HEAD", *FOLDERS)
    rooms = house.by_room(some)
    modules, lines, *kinds = astuple(sum(rooms.values(), Lines()))

    page = house.page(some, house.head("HEAD")).splitlines()

    assert set(rooms) == set(FOLDERS)
    assert modules == len(some)
    assert sum(kinds) == lines == sum(len(each.text.splitlines()) for each in some)
    assert page[0] == f"# The house at {house.head('HEAD')}"
    ours = sum(each.is_run for each in some)
    assert [each.split(" | ")[1] for each in page if each.startswith("| **all** |")] == [
        f"{ours}",
        f"{modules - ours}",
    ]


def test_an_entry_is_built_in_three_places() -> None:
    """Where one is made, where one is read back, and where those of a rebuilt table become one: a fourth would forget a field."""
    engine = ROOT / "jobs" / "strandline"
    modules = [Module(path.name, path.read_text()) for path in engine.rglob("*.py")]

    built = sorted(place.partition(":")[0] for place in house.entries(modules))

    assert built == ["ledger.py", "new_entry.py", "shadow_lake.py"]
