"""``retire`` and ``move`` refuse what they cannot do before Spark starts, and ``ledger`` and ``status`` say what was left."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.core.topic import RECEIVED
from strandline.engine.accounting.routes import refuse_undeclared
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.operate import session
from strandline.operate.backfill import left_behind_words
from tests.cli.inside import strandline, succeeded
from tests.support.by_hand import commit, create
from tests.support.events import reading

TABLE = bronze.TABLE.id


@pytest.fixture
def read(lake: Lake) -> Lake:
    """Return a lake whose bronze table read a topic on two clusters, retired another, and a third left its declaration."""
    (new, _) = (topic.name for topic in bronze.TABLE.topics)
    entry = Entry(
        table=TABLE,
        mode="move cluster",
        stream=f"{new}@id",
        batch=0,
        source=new,
        offsets={
            f"{new}/0": (7, 7),
            f"{new}/1000000": (3, 3),
            "old/0": (5, 5),
            "older/0": (4, 4),
        },
        moved={f"{new}/0": (7, 9)},
        retired={"old": "an-id ann at noon: it is empty"},
    )
    create(lake.table(bronze.TABLE), RECEIVED)
    commit(lake.table(bronze.TABLE), [], entry.encoded())
    return lake


@pytest.mark.whole
@pytest.mark.parametrize("verb", ["ledger", "status"])
def test_what_feeds_a_table_no_more_is_said(read: Lake, verb: str) -> None:
    (new, _) = (topic.name for topic in bronze.TABLE.topics)

    answer = succeeded(verb, "--lake", read.root)

    assert (
        f"retired from {TABLE}: old, read up to offset 5 of partition 0, by ann at noon: it is empty"
        in answer.out
    )
    assert (
        f"moved to another cluster: {new}/0 of {TABLE}, read up to offset 7, which ended at 9"
        in answer.out
    )
    assert "no longer fed: older, which the declaration" in answer.out


@pytest.fixture
def filled(read: Lake) -> Lake:
    """Return the same with tables of silver and gold above it, and one of gold that no module declares."""
    for table in (silver.TABLE, gold.TABLE):
        create(read.table(table), RECEIVED)
        entry = Entry(table=table.id, mode="batch", stream="s", batch=0, source="")
        commit(read.table(table), [], entry.encoded())
    create(read.root / "gold" / "former", RECEIVED)
    return read


def test_a_table_is_retired_by_name_said_everywhere_and_taken_back(filled: Lake) -> None:
    """From above to below, and back from below to above."""
    words, because = ("--lake", filled.root), ("--because", "they left")
    names = (gold.TABLE.id, silver.TABLE.id)

    refused = strandline("retire", silver.TABLE.id, *because, *words)
    assert (refused.code, "would get no more rows" in refused.err) == (2, True), refused.printed
    for name in names:
        succeeded("retire", name, *because, *words)

    for verb in ("ledger", "status"):
        answer = strandline(verb, *words)
        for name in names:
            assert f"retired: {name}, which is read and no longer fed, by " in answer.out
    listed = json.loads(succeeded("tables", "--json", *words).out)
    modes = {each["table"]: each["mode"] for each in listed}
    assert [modes[name] for name in names] == ["retired"] * 2
    status = json.loads(succeeded("status", "--json", *words).out)
    assert status["retired"][gold.TABLE.id]["why"] == "they left"
    for verb in ("run", "verify"):
        refused = strandline(verb, gold.TABLE.id, *words)
        assert (refused.code, "is retired, by " in refused.err) == (2, True), refused.printed
    refused = strandline("retire", gold.TABLE.id, "--undo", *because, *words)
    assert f"retire {silver.TABLE.id} --undo" in refused.err

    for name in names[::-1]:
        succeeded("retire", name, "--undo", *because, *words)

    assert "no longer fed, by" not in strandline("ledger", *words).out


def test_history_whose_only_judge_is_retired_is_refused_with_that_reason(
    filled: Lake, tmp_path: Path
) -> None:
    """And what a repair of silver leaves behind is named: gold, as long as it is retired."""
    words, because = ("--lake", filled.root), ("--because", "they left")
    assert not left_behind_words(silver.TABLE, filled)
    for name in (gold.TABLE.id, silver.TABLE.id):
        succeeded("retire", name, *because, *words)
    history = tmp_path / "history.jsonl"
    history.write_bytes(reading())
    topic = ("--topic", bronze.TABLE.topics[0].name)

    refused = strandline("import", TABLE, history, *topic, "--dry-run", *words)

    assert refused.code == 2, refused.printed
    assert f"{silver.TABLE.id} is retired, by " in refused.err
    assert gold.TABLE.id in left_behind_words(silver.TABLE, filled)


def test_a_table_that_no_module_declares_is_named_and_no_request_to_forget_passes_over_it(
    filled: Lake,
) -> None:
    words, because = ("--lake", filled.root), ("--because", "it is over")
    beside = filled.root / "_checkpoints" / "gold.former" / "metadata"
    beside.put("{}")

    for verb in ("ledger", "status"):
        answer = strandline(verb, *words)
        assert "declared by no module: gold.former" in answer.out
        assert "strandline retire gold.former --delete" in answer.out
    refused = strandline("retire", "gold.former", *because, *words)
    assert (refused.code, "no module declares it" in refused.err) == (2, True), refused.printed
    with pytest.raises(DefinitionError, match=r"the lake has gold\.former, which no module"):
        refuse_undeclared(filled)
    refused = strandline("retire", gold.TABLE.id, "--delete", *because, *words)
    assert "only such a one is deleted" in refused.err

    succeeded("retire", "gold.former", "--delete", *because, *words)

    assert not (filled.root / "gold" / "former").exists()
    assert not beside.exists()
    refuse_undeclared(filled)


def test_nothing_is_begun_without_a_reason_or_for_a_table_that_reads_no_topic(read: Lake) -> None:
    words = [
        (("retire", TABLE, "--topic", "old"), "for a reason"),
        (("retire", TABLE), "for a reason"),
        (("retire", TABLE, "--from", "x:1", "--because", "x"), "about a topic"),
        (("retire", TABLE, "--delete", "--undo", "--because", "x"), "cannot be taken back"),
        (("move", TABLE), "for a reason"),
        (("move", "silver.device_telemetry", "--because", "x"), "reads tables and no topic"),
        (("retire", "bronze.dhcp_events", "--topic", "x", "--because", "x"), "does not exist"),
    ]
    with patch.object(session, "site", side_effect=AssertionError("Spark was started")):
        for typed, says in words:
            answer = strandline(*typed, "--lake", read.root)

            assert answer.code == 2, answer.printed
            assert says in answer.err
