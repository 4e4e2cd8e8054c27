"""A log that is cut is short for Delta and whole for the ledger, wherever the process is killed."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from strandline.engine.lake.log import vacuum
from strandline.engine.lake.log.commit_log import (
    Kind,
    actions,
    commit_file,
    commit_text,
    is_commit,
    log_of,
    logged_versions,
    old_commit,
    pack_file,
    versions,
)
from strandline.engine.lake.log.ledger import entries, entry_at, is_table, latest_version
from strandline.engine.lake.log.ledger_sums import fingerprint, sums_of
from strandline.engine.lake.log.vacuum import begins_at, bring_back, cut
from strandline.engine.lake.place import Place
from tests.support.packs import small_packs, with_checkpoints

ALL = 36


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    small_packs(monkeypatch)
    path = Place.of(tmp_path / "silver" / "readings")
    with_checkpoints(path, ALL)
    return path


@pytest.mark.whole
def test_the_log_keeps_what_follows_the_last_checkpoint_but_one(table: Place) -> None:
    assert cut(table, needed=ALL) == 20

    assert logged_versions(table) == list(range(20, ALL))
    assert begins_at(table) == 20
    assert DeltaTable(str(table)).version() == ALL - 1
    assert DeltaTable(str(table), version=20).version() == 20


@pytest.mark.whole
def test_every_reader_of_the_ledger_finds_what_it_found_before(table: Place) -> None:
    texts = {version: commit_text(table, version) for version in range(ALL)}
    prints = [fingerprint(table, version) for version in range(ALL)]
    found, sums = [*entries(table)], sums_of(table)

    cut(table, needed=ALL)

    assert versions(table) == list(range(ALL))
    assert {version: commit_text(table, version) for version in range(ALL)} == texts
    assert [fingerprint(table, version) for version in range(ALL)] == prints
    assert [*entries(table)] == found
    assert sums_of(table) == sums
    assert [len([*actions(table, v, Kind.ADD)]) for v in range(ALL)] == [1] * ALL
    assert is_table(table)
    assert latest_version(table) == ALL - 1
    assert not is_commit(table, ALL)
    assert entry_at(table, ALL) is None


@pytest.mark.whole
def test_a_reader_that_is_behind_keeps_what_it_needs(table: Place) -> None:
    assert cut(table, needed=10) == 0, "version 9 would not be readable by its number"
    assert cut(table, needed=17) == 10
    assert logged_versions(table)[0] == 10
    assert DeltaTable(str(table), version=16).version() == 16


@pytest.mark.whole
def test_a_checkpoint_that_is_torn_is_none(table: Place) -> None:
    """It would be the only one left, and Delta could not open the table."""
    for torn in (b"", b"PAR1 and not more"):
        (log_of(table) / f"{20:020d}.checkpoint.parquet").local.write_bytes(torn)
        assert cut(table, needed=ALL, go=False) == 10


@pytest.mark.whole
def test_it_is_only_counted_where_nothing_is_to_be_changed(table: Place) -> None:
    before = [*table.local.rglob("*")]
    assert cut(table, needed=ALL, go=False) == 20
    assert [*table.local.rglob("*")] == before


@pytest.mark.whole
def test_a_second_cut_goes_on_where_the_first_ended(table: Place) -> None:
    cut(table, needed=ALL)
    assert cut(table, needed=ALL) == 0
    with_checkpoints(table, 20, first=ALL)

    assert cut(table, needed=ALL + 20) == 20
    assert logged_versions(table)[0] == 40
    assert versions(table) == list(range(ALL + 20))


def test_commits_come_back_for_a_stream_and_leave_again(table: Place) -> None:
    cut(table, needed=ALL)

    assert bring_back(table, 13) == 7
    assert logged_versions(table) == list(range(13, ALL))
    assert bring_back(table, 13) == 0
    assert json.loads((commit_file(table, 13).text() or "").splitlines()[0])

    assert cut(table, needed=ALL) == 7
    assert logged_versions(table) == list(range(20, ALL))
    assert versions(table) == list(range(ALL))


@pytest.mark.whole
@pytest.mark.parametrize("moved", range(10))
def test_one_that_is_killed_while_it_moves_commits_loses_none(
    table: Place, moved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {version: commit_text(table, version) for version in range(ALL)}
    left = iter(range(moved))

    def killed(path: Place, version: int) -> Place:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return commit_file(path, version)

    with monkeypatch.context() as patch:
        patch.setattr(vacuum, "commit_file", killed)
        with pytest.raises(KeyboardInterrupt):
            cut(table, needed=ALL)

    assert {version: commit_text(table, version) for version in range(ALL)} == texts
    cut(table, needed=ALL)
    assert logged_versions(table) == list(range(20, ALL))
    assert {version: commit_text(table, version) for version in range(ALL)} == texts


def test_a_pack_is_a_fraction_of_its_commits_and_plain_to_read(table: Place) -> None:
    size = sum(commit_file(table, version).local.stat().st_size for version in range(10))
    cut(table, needed=ALL)

    pack = pack_file(table, 0).local
    assert pack.stat().st_size < size / 4
    assert old_commit(table, 20) is None
    assert old_commit(table, -1) is None
