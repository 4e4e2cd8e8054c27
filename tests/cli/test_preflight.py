"""`preflight` answers from files while nothing changed, and a start after an edit is refused before it begins."""

import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import STATE, Lake
from strandline.engine.lake.spark_checkpoint import read_record, write_record
from strandline.operate import session
from tests.cli.inside import strandline, succeeded
from tests.support.modes import derive

pytestmark = pytest.mark.slow


@pytest.fixture
def edited(filled: Path, tmp_path: Path) -> Lake:
    """Return a lake whose gold table was made by code that kept its state by one key less."""
    shutil.copytree(filled, tmp_path / "lake")
    lake = Lake(tmp_path / "lake")
    record = read_record(lake.checkpoint(gold.TABLE))
    assert record is not None
    (operator,) = record.plan["operators"]
    former = {**operator, "keys": operator["keys"][1:]}
    plan = {**record.plan, "operators": [former]}
    write_record(lake.checkpoint(gold.TABLE), replace(record, fingerprint="", plan=plan))
    return lake


def test_what_is_as_it_was_needs_no_jvm(filled: Path) -> None:
    with patch.object(session, "site", side_effect=AssertionError("Spark was started")):
        answer = succeeded("preflight", "--lake", filled)

    lines = [line.split() for line in answer.out.splitlines()]
    assert ["gold.device_signal_10m", "safe"] in lines
    assert ["silver.device_telemetry", "safe"] in lines


def test_a_search_by_javas_engine_is_a_warning_and_no_verdict(filled: Path, tmp_path: Path) -> None:
    """It was recorded when the stream began, so nothing is started to see it."""
    shutil.copytree(filled, tmp_path / "lake")
    checkpoint = Lake(tmp_path / "lake").checkpoint(gold.TABLE)
    record = read_record(checkpoint)
    assert record is not None
    assert record.searches == ()
    write_record(checkpoint, replace(record, plan={**record.plan, "searches": ["split ,+"]}))

    with patch.object(session, "site", side_effect=AssertionError("Spark was started")):
        answer = strandline("preflight", gold.TABLE.id, "--lake", tmp_path / "lake")

    assert answer.code == 0, answer.printed
    assert "safe" in answer.out
    says = "split of ',+' is searched by Java's engine, which one text can keep busy for ever: write linear_split instead"
    assert f"{gold.TABLE.id}: {says}" in answer.out


def test_what_a_roll_back_would_meet_is_said(lake: Lake) -> None:
    before = strandline("preflight", "--lake", lake.root)
    lake.raise_to(STATE)
    after = strandline("preflight", "--lake", lake.root)

    assert (before.code, after.code) == (0, 0), before.printed + after.printed
    assert "no way back" not in before.out
    assert "no way back: the state of streams of this lake have form 1" in after.out


def test_an_edit_is_judged_and_named(edited: Lake) -> None:
    answer = strandline("preflight", gold.TABLE.id, "--lake", edited.root)

    assert answer.code == 2, answer.printed
    assert "needs a new checkpoint" in answer.out
    assert "the state of Aggregate is kept by other keys" in answer.out
    assert f"`strandline migrate {gold.TABLE.id}`" in answer.out
    (verdict,) = strandline("preflight", gold.TABLE.id, "--lake", edited.root, "--json").json
    assert verdict["differences"][0]["remedy"] == "rebuild"


def test_neither_a_run_nor_a_stream_starts_after_it(spark: SparkSession, edited: Lake) -> None:
    with pytest.raises(DefinitionError, match="needs a new checkpoint") as refused:
        derive(spark, edited, gold.TABLE)
    answer = strandline("stream", gold.TABLE.id, "--lake", edited.root)

    assert f"strandline migrate {gold.TABLE.id}" in refused.value.hint
    assert answer.code == 2, answer.printed
    assert "needs a new checkpoint" in answer.err
    assert not edited.heartbeat.exists()
