"""The commit with an imported offset is found by what is written beside the log, and in the log where nothing is."""

from collections.abc import Callable, Sequence

import pytest

from strandline.engine.lake import find_rows
from strandline.engine.lake.find_rows import bringing_commit, commit_with
from strandline.engine.lake.import_notes import ImportSlices, Slice
from strandline.engine.lake.log import ledger_sums
from strandline.engine.lake.log.ledger import BATCH, IMPORT, Entry, entry_at
from strandline.engine.lake.log.ledger_sums import Snapshot, sums_of, write
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, entry
from tests.support.ledgers import write_log

pytestmark = pytest.mark.core

PART = "x/-1"
COMMITS = 600
AT = {3: (0, 5), 300: (5, 9), 301: (9, 10), 590: (10, 30)}
"""The versions with imported rows, and their offsets."""


@pytest.fixture
def path(anywhere: Place) -> Place:
    """Return the log of a table in which imports are rare, with the sums of its ledger."""
    path = anywhere / "bronze" / BRONZE.name
    write_log(path, [*_log()])
    write(path, Snapshot(sums=sums_of(path)))
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the versions whose entries are read from now on."""
    versions: list[int] = []

    def counted(place: Place, version: int) -> Entry | None:
        versions.append(version)
        return entry_at(place, version)

    for module in (find_rows, find_rows, ledger_sums):
        monkeypatch.setattr(module, "entry_at", counted)
    return versions


@pytest.mark.whole
@pytest.mark.parametrize("find", [commit_with, bringing_commit])
def test_few_entries_are_read_for_an_imported_offset(
    path: Place, opened: list[int], find: Callable[[Place, str, int], tuple[int, Entry] | None]
) -> None:
    """However many commits have none; a note that a kill made too early leads there too."""
    for version, (first, _) in AT.items():
        ImportSlices(path, PART).note(first, version - 2)

    for version, (first, end) in AT.items():
        for offset in {first, end - 1}:
            opened.clear()
            found = find(path, PART, offset)
            assert found is not None
            assert found[0] == version
            assert 0 < len(opened) < 8, offset
    opened.clear()
    assert find(path, PART, 30) is None
    assert len(opened) < 3


def test_a_long_import_is_passed_over_at_once_by_a_search_for_another_offset(
    anywhere: Place, opened: list[int]
) -> None:
    """Two of them with a batch between, and one slice that waited for a batch."""
    path = anywhere / "bronze" / BRONZE.name
    log, offset, imported = [], 0, 0
    for version in range(300):
        if 20 <= version < 150 or 151 <= version < 290:
            after = version - 2 if version == 151 else version - 1
            ImportSlices(path, PART).note(imported, after)
            log.append(_slice(imported, imported + 2))
            imported += 2
        else:
            log.append(_batch(version, offset))
            offset += 1
    write_log(path, log)

    for wanted in range(offset):
        opened.clear()
        found = commit_with(path, "x/0", wanted)
        assert found is not None
        assert found[1].offsets["x/0"] == (wanted, wanted + 1)
        assert len(opened) < 30
    assert commit_with(path, "x/0", offset) is None


@pytest.mark.whole
def test_notes_that_are_missing_or_of_another_table_do_not_mislead(path: Place) -> None:
    """An older version wrote none; a table that was made anew has other versions."""
    for notes in ([], [(5, 40)], [(0, 599), (5, 595), (10, 20)], [(0, 301), (1, 0), (2, 590)]):
        _note(path, notes)
        for version, (first, end) in AT.items():
            for offset in (first, end - 1):
                found = bringing_commit(path, PART, offset)
                assert found is not None
                assert found[0] == version


def test_the_slice_of_an_offset_is_the_last_that_begins_before(anywhere: Place) -> None:
    """A slice that was never committed is written again, of the same offset or of an earlier one."""
    slices = ImportSlices(anywhere / "bronze" / "x", PART)
    assert slices.of(0) is None
    firsts = [0, 3, 4, 10, 17, 40]
    for number, first in enumerate(firsts):
        slices.note(first, number)
        slices.note(first, number + 100)

    for offset in range(50):
        number = max(n for n, first in enumerate(firsts) if first <= offset)
        assert slices.of(offset) == Slice(firsts[number], number + 100)
    slices.note(5, 7)
    assert (slices.of(4), slices.of(5)) == (Slice(4, 102), Slice(5, 7))


def _note(path: Place, notes: Sequence[tuple[int, int]]) -> None:
    for first, after in notes:
        ImportSlices(path, PART).note(first, after)


def _log() -> list[Entry]:
    log, offset = [], 0
    for version in range(COMMITS):
        if version in AT:
            log.append(_slice(*AT[version]))
        else:
            log.append(_batch(version, offset))
            offset += 1
    return log


def _slice(first: int, end: int) -> Entry:
    ends = {PART: (first, end)}
    return entry(BRONZE, mode=IMPORT, batch=BATCH, offsets=ends, imported=ends)


def _batch(number: int, offset: int) -> Entry:
    return entry(BRONZE, batch=number, offsets={"x/0": (offset, offset + 1)})
