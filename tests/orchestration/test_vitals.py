"""A table is looked at soon after it was written, and now and then when it was not; no look takes the whole minute."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import build_sensor_context
from strandline import catalog

from strandline.core.kind import Fresh
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.day_verdicts import LEDGER
from strandline_dagster import vitals
from strandline_dagster.resources import LakeResource, key
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, written
from tests.support.held import hold, record
from tests.support.instance import ephemeral
from tests.support.rows import NOON

ALL = {table.id for table in (BRONZE, SILVER, GOLD)}


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Make a lake of three tables, and let the settings name it."""
    lake = Lake(tmp_path / "lake")
    one = entry(BRONZE, offsets={"0": (0, 3)}, read=3, good=3, written=3)
    written(lake.table(BRONZE), numbers(3), one.encoded())
    late = {"good": 2, "quarantined": {"late": 1}, "written": 2}
    two = entry(SILVER, versions={BRONZE.id: (0, 0)}, read=3, **late)
    hold(lake, SILVER, [record(1, "late")], two)
    written(lake.table(SILVER), numbers(2), two.encoded())
    three = entry(GOLD, versions={SILVER.id: (0, 0)}, read=2, good=2, written=1)
    written(lake.table(GOLD), numbers(1), three.encoded())
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    return lake


def looked(cursor: str | None) -> tuple[list[str], str]:
    """Look once; return whose ledger was asked about, and where to go on."""
    with build_sensor_context(instance=ephemeral(), cursor=cursor) as context:
        found: Any = vitals.look_at_tables(context, lake=LakeResource())
    answers = [each for each in found.asset_events if each.check_name == LEDGER]
    return [".".join(each.asset_key.path) for each in answers], found.cursor


def test_a_table_is_looked_at_again_when_it_was_written(small: Lake) -> None:
    first, cursor = looked(None)
    calm, cursor = looked(cursor)
    written(small.table(GOLD), numbers(1), entry(GOLD, batch=1, written=1).encoded())
    news, _ = looked(cursor)

    assert set(first) == ALL
    assert calm == []
    assert news == [".".join(key(GOLD).path)]


@pytest.mark.whole
@pytest.mark.usefixtures("small")
def test_what_a_look_does_not_come_to_is_the_first_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So the tables of a lake with long ledgers are looked at less often, but all of them."""
    monkeypatch.setattr(vitals, "LONG", 0.0)
    cursor, found = None, []
    for _ in ALL:
        news, cursor = looked(cursor)
        found += news

    assert len(found) == len(ALL)
    assert set(found) == ALL


def test_a_table_without_commits_is_looked_at_now_and_then(small: Lake) -> None:
    """It may become stale without a new commit."""
    at = 1_000.0
    seen = {table.id: (0, at + n) for n, table in enumerate((GOLD, SILVER, BRONZE))}

    assert vitals.due(small, seen, at + 10) == []
    assert vitals.due(small, seen, at + vitals.OLD + 1) == [GOLD, SILVER]
    assert vitals.due(small, seen, at + vitals.OLD + 2) == [GOLD, SILVER, BRONZE]


def test_a_broken_promise_is_one_alarm_that_names_the_hop(
    small: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is looked at each time although nothing is written, and the alarm is sent once."""
    sent = list[dict[str, Any]]()
    monkeypatch.setattr(
        vitals, "send_or_keep", lambda facts, _, name: sent.append({**facts, "name": name})
    )
    promised = replace(SILVER, fresh=Fresh("5 minutes", by="arrival"))
    monkeypatch.setattr(catalog, "tables", lambda: (BRONZE, promised, GOLD))
    monkeypatch.setattr(vitals.clock, "now", lambda: NOON + timedelta(days=400))

    _, cursor = looked(None)
    news, cursor = looked(cursor)

    assert news == [".".join(key(SILVER).path)]
    (alarm,) = sent
    assert alarm["runbook"] == "infra/runbooks/overdue.md"
    assert alarm["says"].startswith(f"{SILVER.id} ")
    assert "is silent" in alarm["says"]
    assert alarm["name"] == f"overdue_{SILVER.id.replace('.', '_')}"

    monkeypatch.setattr(catalog, "tables", lambda: (BRONZE, SILVER, GOLD))
    written(small.table(SILVER), numbers(1), entry(SILVER, batch=1, written=1).encoded())
    _, cursor = looked(cursor)
    monkeypatch.setattr(catalog, "tables", lambda: (BRONZE, promised, GOLD))
    looked(cursor)
    assert len(sent) == 2
