"""Damage is named for the table whose file it is, also where another table meets it."""

import errno
import threading
from pathlib import Path

import pytest

from fleet.gold import device_daily, device_signal_10m
from fleet.silver import devices
from strandline.core.errors import DamagedError
from strandline.core.table import Table
from strandline.engine.lake import open_table
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place, damage
from tests.engine.written import written


def refused(file: str) -> PermissionError:
    return PermissionError(errno.EACCES, "Permission denied", file)


@pytest.mark.parametrize(
    "whose", [device_signal_10m.TABLE, devices.TABLE], ids=lambda each: each.id
)
def test_a_folder_of_a_source_is_the_sources_damage(whose: Table) -> None:
    """The table above was called damaged, and the hint was to mend it, in whose log nothing was wrong."""
    above, file = device_daily.TABLE, f"/lake/{whose.layer.value}/{whose.name}/_delta_log"

    found = damage(refused(file), above)

    assert found is not None
    assert found.message.startswith(f"{above.id} cannot be read: {whose.id} is damaged: {file} may")
    assert f"`strandline mend {whose.id}`" in found.hint
    assert found.fields["table"] == whose.id


@pytest.mark.parametrize(
    ("file", "whose"),
    [
        (f"/lake/_checkpoints/{device_signal_10m.TABLE.id}/offsets", device_signal_10m.TABLE.id),
        (f"/lake/quarantine/{devices.TABLE.name}/_delta_log", devices.TABLE.id),
    ],
)
def test_what_is_kept_beside_a_source_is_the_sources(file: str, whose: str) -> None:
    for error in (refused(file), RuntimeError(f"java.nio.file.AccessDeniedException: {file}")):
        found = damage(error, device_daily.TABLE)

        assert found is not None
        assert found.fields["table"] == whose


@pytest.mark.whole
def test_a_folder_of_its_own_and_one_of_no_table_are_the_tables_damage() -> None:
    table = device_daily.TABLE

    for file in (f"/lake/gold/{table.name}/_delta_log", f"/lake/_checkpoints/{table.id}/offsets"):
        found = damage(refused(file), table)

        assert found is not None
        assert found.message.startswith(f"{table.id} is damaged: {file} may")


def test_a_commit_that_is_made_while_the_log_is_listed_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list had the commit's checksum and not yet the commit itself, and a question beside a stream called the table torn."""
    path = tmp_path / "table"
    for number in range(3):
        written(path, [{"n": number}])
    commit = path / "_delta_log" / f"{2:020}.json"
    commit.with_suffix(".crc").write_text('{"tableSizeBytes": 1, "numFiles": 1}')
    said = commit.read_bytes()
    commit.unlink()

    with pytest.raises(DamagedError, match="newer than log segment"):
        opened(Place.of(path))

    monkeypatch.setattr(open_table, "LOOKS", 100)
    comes = threading.Timer(0.2, commit.write_bytes, [said])
    comes.start()
    assert opened(Place.of(path)).version() == 2
    comes.join()
