"""A query reads a past version of a table, or says why it cannot."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.engine.ask.sql_query import Answer, ask
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log import commit_log
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.vacuum import cut, sweep
from strandline.engine.lake.open_table import opened, version_at
from strandline.engine.lake.place import Place
from tests.engine.written import SILVER, numbers, small_lake, written

NAME = "silver.device_telemetry"
COUNT = f"SELECT count(*), max(number) FROM {NAME}"  # noqa: S608  # a constant


@pytest.fixture
def aged(tmp_path: Path) -> Lake:
    """Return a lake whose silver table had 3 rows at its first version, and has 1 row more in each of ten others."""
    lake = small_lake(tmp_path / "lake")
    for number in range(10, 20):
        written(lake.table(SILVER), [{"number": number}])
    return lake


def answer(sql: str, lake: Lake) -> Answer:
    return ask(sql, catalog.tables(), lake)


def dated(lake: Lake, version: int, moment: datetime) -> None:
    """Let a commit be of a moment."""
    file = commit_file(lake.table(SILVER), version)
    lines = [json.loads(line) for line in (file.text() or "").splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["timestamp"] = int(moment.timestamp() * 1000)
    file.put("\n".join(map(json.dumps, lines)) + "\n")


@pytest.mark.whole
def test_a_version_has_the_rows_of_its_commit(aged: Lake) -> None:
    """Each of them, beside the latest, in one query."""
    assert answer(f"{COUNT} AT (VERSION => 0)", aged).rows == ((3, 2),)
    assert answer(f"{COUNT} AT (VERSION => 4)", aged).rows == ((7, 13),)
    both = f"""
        SELECT count(*) FROM {NAME} AS now
        ANTI JOIN {NAME} AS past AT (VERSION => 8) ON now.number = past.number
    """  # noqa: S608  # a constant
    assert answer(both, aged).rows == ((2,),)


@pytest.mark.whole
def test_columns_of_a_past_version_have_the_name_of_its_table(aged: Lake) -> None:
    sql = f"SELECT device_telemetry.number FROM {NAME} AT (VERSION => 1) ORDER BY 1 DESC LIMIT 1"  # noqa: S608  # a constant

    assert answer(sql, aged).rows == ((10,),)


def test_a_moment_means_the_last_version_committed_until_then(
    aged: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a search that reads a few commits, not by a walk."""
    for version in range(11):
        dated(aged, version, datetime(2026, 11, 1 + version, 12, tzinfo=UTC))

    assert answer(f"{COUNT} AT (TIMESTAMP => '2026-11-03 12:00')", aged).rows == ((5, 11),)
    assert answer(f"{COUNT} AT (TIMESTAMP => '2026-11-03 11:59:59')", aged).rows == ((4, 10),)
    assert answer(f"{COUNT} AT (TIMESTAMP => DATE '2027-01-01')", aged).rows == ((13, 19),)
    assert answer(f"{COUNT} AT (TIMESTAMP => TIMESTAMPTZ '2026-11-03 13:59:59+02')", aged).rows == (
        (4, 10),
    )
    with pytest.raises(DefinitionError, match="did not exist at 2026-10-01") as caught:
        answer(f"{COUNT} AT (TIMESTAMP => '2026-10-01')", aged)
    assert "2026-11-01 12:00" in caught.value.hint

    looked: list[int] = []
    real = commit_log.committed_at
    monkeypatch.setattr(
        "strandline.engine.lake.open_table.committed_at",
        lambda path, version: looked.append(version) or real(path, version),
    )
    version_at(aged.table(SILVER), NAME, datetime(2026, 11, 5, tzinfo=UTC))
    assert len(looked) <= 5


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("AT (VERSION => 99)", "no version 99"),
        ("AT (VERSION => -1)", "no version -1"),
        ("AT (VERSION => '4')", "'4' is no version"),
        ("AT (VERSION => number)", "AT needs a value"),
        ("AT (TIMESTAMP => 'noon')", "'noon' is no moment"),
        ("AT VERSION 4", "syntax error"),
        ("VERSION AS OF 4", "syntax error"),
    ],
)
def test_what_is_no_version_is_refused_with_how_to_write_one(
    clause: str, message: str, aged: Lake
) -> None:
    """The ways of other programs too."""
    with pytest.raises(DefinitionError, match=message) as caught:
        answer(f"{COUNT} {clause}", aged)

    assert "latest is 10" in caught.value.hint or "AT (" in caught.value.hint


def test_a_quarantine_shows_what_is_open_now_alone(aged: Lake) -> None:
    with pytest.raises(DefinitionError, match="has no versions"):
        answer("FROM quarantine.device_telemetry AT (VERSION => 0)", aged)


def test_a_version_behind_a_cut_log_is_refused_with_the_oldest_that_is_left(tmp_path: Path) -> None:
    """The log is cut as maintenance cuts it."""
    lake = Lake(tmp_path / "lake")
    place = lake.table(SILVER)
    written(place, numbers(3))
    for version in range(1, 252):
        commit_file(place, version).put('{"commitInfo":{"timestamp":0}}\n')
        if version in {100, 200, 250}:
            DeltaTable(str(place)).create_checkpoint()
    assert cut(place, 250) == 200

    assert answer(f"{COUNT} AT (VERSION => 210)", lake).rows == ((3, 2),)
    with pytest.raises(DefinitionError, match="at version 7: its log was cut") as caught:
        answer(f"{COUNT} AT (VERSION => 7)", lake)
    assert "200" in caught.value.hint


def test_a_version_whose_files_were_deleted_is_refused_with_the_oldest_that_is_left(
    aged: Lake,
) -> None:
    """By maintenance, once the latest version has not had them for long enough."""
    place = aged.table(SILVER)
    written(place, numbers(2), mode="overwrite")
    written(place, numbers(3), mode="overwrite")
    assert [*sweep(place, 13, datetime(2100, 1, 1, tzinfo=UTC))]

    assert answer(f"{COUNT} AT (VERSION => 12)", aged).rows == ((3, 2),)
    with pytest.raises(DefinitionError, match="11 of its 11 files were deleted") as caught:
        answer(f"{COUNT} AT (VERSION => 10)", aged)
    assert "12" in caught.value.hint


@pytest.mark.parametrize(
    ("feature", "meaning"),
    [
        ("deletionVectors", "deletion vectors"),
        ("catalogManaged", "versions that a catalog, and not its log, says"),
        ("v2Checkpoint", "checkpoints in a newer form"),
        ("adaptiveMetadata", "adaptiveMetadata"),
    ],
)
def test_a_table_with_a_feature_of_another_tool_is_refused_with_a_sentence(
    aged: Lake, feature: str, meaning: str
) -> None:
    """With deletion vectors an answer would be wrong; what delta-rs does not know is not damaged."""
    place = aged.table(SILVER)
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [feature],
        "writerFeatures": [feature],
    }
    commit_file(place, 11).put(json.dumps({"protocol": protocol}) + "\n")

    with pytest.raises(DefinitionError, match=meaning) as caught:
        answer(COUNT, aged)
    assert "Spark" in caught.value.hint
    assert answer(f"{COUNT} AT (VERSION => 10)", aged).rows == ((13, 19),)


@pytest.mark.whole
def test_every_answer_is_as_new_as_the_last_commit(aged: Lake) -> None:
    before = answer(COUNT, aged).rows
    written(aged.table(SILVER), [{"number": 99}])

    assert (before, answer(COUNT, aged).rows) == (((13, 19),), ((14, 99),))


def test_a_past_version_masks_what_the_table_has_no_more(tmp_path: Path) -> None:
    """Of a column that is gone, no lineage says what it was made of."""
    lake = Lake(tmp_path / "lake")
    gold = lake.root / "silver" / "user_actions"
    write_deltalake(str(gold), opened(_rows(lake, "old_name")).to_pyarrow_table())
    write_deltalake(
        str(gold),
        opened(_rows(lake, "action_id")).to_pyarrow_table(),
        mode="overwrite",
        schema_mode="overwrite",
    )

    assert answer("FROM silver.user_actions", lake).rows == (("anna",),)
    ((past,),) = answer("FROM silver.user_actions AT (VERSION => 0)", lake).rows
    assert str(past).startswith("[")


def _rows(lake: Lake, column: str) -> Place:
    place = lake.root / "scratch" / column
    written(place, [{column: "anna"}])
    return place
