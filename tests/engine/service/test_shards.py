"""Hosts share the tables of a lake out: which has which follows from names, and all of them are seen as one stream."""

import json
from collections import Counter
from datetime import timedelta

import pytest
from strandline import catalog

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.processes import own
from strandline.engine.service.background_stream import STREAM, refuse_ill
from strandline.engine.service.condition import condition
from strandline.engine.service.stream_health import SILENT, Ill, Shard, heartbeat, near_beat
from strandline.operate import migrate
from strandline.operate.stream import of_share
from tests.cli.inside import strandline, succeeded
from tests.support.rows import NOON

GONE = 2**22 + 1
"""No process of Linux has such a number."""

NAMES = [f"silver.table_{number}" for number in range(1_000)]


def write(lake: Lake, shard: str | None, *tables: str, **fields: object) -> None:
    """Write the heartbeat of one share."""
    pulse = {"lag": 0, "at": None, "batches": 1, "read": 1, "state": 0, "rate": 0.0}
    beat = {**own(), "alive": True, "at": NOON.isoformat(), **fields}
    file = lake.heartbeat if shard is None else Shard.parsed(shard).beat(lake)
    mine = {} if shard is None else {"shard": shard}
    file.put(json.dumps({**beat, **mine, "tables": dict.fromkeys(tables, pulse)}))


def shares(of: int, names: list[str]) -> dict[str, list[int]]:
    every = [Shard(number=number, of=of) for number in range(1, of + 1)]
    return {name: [each.number for each in every if each.holds(name)] for name in names}


@pytest.mark.parametrize("of", [1, 2, 5, 16])
def test_each_table_is_in_exactly_one_share_and_none_is_empty_of_many(of: int) -> None:
    found = shares(of, NAMES)

    assert all(len(numbers) == 1 for numbers in found.values())
    sizes = Counter(numbers[0] for numbers in found.values())
    assert len(sizes) == of
    assert max(sizes.values()) < 1.5 * len(NAMES) / of


def test_where_a_table_is_depends_on_no_other_table_and_is_the_same_in_each_release() -> None:
    """Another release that cut otherwise would stream tables twice, or not at all, while hosts are upgraded one by one."""
    names = ["silver.device_telemetry", "bronze.network_connections", "silver.devices"]

    assert shares(5, names) == {
        "silver.device_telemetry": [2],
        "bronze.network_connections": [3],
        "silver.devices": [4],
    }


def test_one_share_more_moves_only_what_falls_into_it() -> None:
    before, after = shares(4, NAMES), shares(5, NAMES)

    moved = {name for name in NAMES if before[name] != after[name]}

    assert all(after[name] == [5] for name in moved)
    assert 100 < len(moved) < 300


@pytest.mark.parametrize("text", ["0/5", "6/5", "2", "2/", "a/b", "-1/5", "2/5/1", " 2/5"])
def test_what_is_no_share_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(DefinitionError, match="is no share") as refused:
        Shard.parsed(text)
    assert "2/5" in refused.value.hint


def test_a_share_without_a_table_is_refused() -> None:
    """Its program would have nothing to do, for ever."""
    (table, *_) = catalog.tables()
    share = next(each for n in (1, 2) if not (each := Shard(number=n, of=2)).holds(table.id))
    with pytest.raises(DefinitionError, match="no table falls into share"):
        of_share([table], share)
    assert of_share([table], None) == [table]


def test_two_shares_are_one_stream_whose_tables_say_where_they_are(lake: Lake) -> None:
    write(lake, "1/2", "silver.a", at=(NOON - timedelta(seconds=9)).isoformat())
    write(lake, "2/2", "silver.b")

    beat = heartbeat(lake, NOON)

    assert beat is not None
    assert beat["alive"]
    assert beat["at"] == (NOON - timedelta(seconds=9)).isoformat(), (
        "the one of which least is heard"
    )
    assert {name: pulse["shard"] for name, pulse in beat["tables"].items()} == {
        "silver.a": "1/2",
        "silver.b": "2/2",
    }
    assert not condition(lake, NOON).troubles


def test_a_share_whose_process_is_gone_is_a_trouble_and_its_figures_are_no_figures(
    lake: Lake,
) -> None:
    write(lake, "1/3", "silver.a")
    write(lake, "2/3", "silver.b", pid=GONE)

    beat = heartbeat(lake, NOON)
    troubles = condition(lake, NOON).troubles

    assert beat is not None
    assert [*beat["tables"]] == ["silver.a"]
    assert [(each.what, each.tables, each.grave) for each in troubles] == [
        (Ill.DEAD, ("silver.b",), True),
        (Ill.DEAD, (), False),
    ]
    assert "share 2/3" in troubles[0].says
    assert "share 3/3 of the stream is not running; no process has had it" in troubles[1].says


def test_shares_that_have_all_died_are_a_trouble(lake: Lake) -> None:
    """Although there was no request for them that a watchdog could carry out."""
    for name in ("1/2", "2/2"):
        write(lake, name, f"silver.{name[0]}", pid=GONE)

    troubles = condition(lake, NOON).troubles

    assert [(each.tables, each.grave) for each in troubles] == [
        (("silver.1",), True),
        (("silver.2",), True),
    ]


def test_one_stream_after_shares_has_none(lake: Lake) -> None:
    write(lake, "1/2", "silver.a", pid=GONE, at=(NOON - timedelta(hours=1)).isoformat())
    write(lake, None, "silver.a", "silver.b")

    beat = heartbeat(lake, NOON)

    assert beat is not None
    assert "shards" not in beat
    assert not condition(lake, NOON).troubles


def test_no_table_is_exchanged_beside_shares(lake: Lake) -> None:
    """They would take it back by the code of before, and nothing would say so."""
    write(lake, "1/2", "silver.a")

    with pytest.raises(
        TransientError, match=r"in shares \(1/2\), which load no edited code"
    ) as refused:
        list(migrate._Stream(lake, lambda _: None, []).load())

    assert "stop each of them" in refused.value.hint


def test_a_pause_names_the_shares_that_go_on_and_nothing_else_is_done_beside_them(
    lake: Lake,
) -> None:
    """They are stopped where they run; a drain would find their tables taken, and a restart would start all of them here."""
    now = clock.now().isoformat()
    write(lake, "1/2", "silver.a", at=now)
    write(lake, "2/2", "silver.b", pid=GONE, at=now)
    place = ("--lake", str(lake.root))

    assert json.loads(succeeded("pause", "--json", *place).out)["shares"] == ["1/2"]
    assert "shares go on (1/2): stop each where it runs" in succeeded("pause", *place).out
    for verb in ("drain", "restart"):
        refused = strandline(verb, *place)
        assert refused.code == TransientError.exit_code
        assert "in shares (1/2)" in refused.err


def test_shares_of_before_are_no_shares_any_more(lake: Lake) -> None:
    """Two hosts became three: the heartbeats of the two are still there, and those of the stream of before."""
    write(lake, None, "silver.a", "silver.b", alive=False)
    for name in ("1/2", "2/2"):
        write(lake, name, "silver.a", alive=False)
    for name in ("1/3", "2/3", "3/3"):
        write(lake, name, f"silver.{name[0]}")

    beat = heartbeat(lake, NOON)

    assert beat is not None
    assert [each["shard"] for each in beat["shards"]] == ["1/3", "2/3", "3/3"]
    assert not condition(lake, NOON).troubles


def test_shares_that_have_all_ended_are_a_stream_that_has(lake: Lake) -> None:
    write(lake, "1/2", "silver.a", alive=False)
    write(lake, "2/2", "silver.b", alive=False)

    beat = heartbeat(lake, NOON)

    assert beat is not None
    assert not beat["alive"]
    assert not condition(lake, NOON).troubles


def test_the_stream_of_one_process_is_as_it_was(lake: Lake) -> None:
    write(lake, None, "silver.a")

    beat = heartbeat(lake, NOON)

    assert beat is not None
    assert "shards" not in beat
    assert "shard" not in beat["tables"]["silver.a"]


def test_a_probe_asks_the_share_of_its_host(lake: Lake) -> None:
    """A pod has one, and knows no other's."""
    write(lake, "2/2", "silver.b")
    write(lake, "1/2", "silver.a", host="elsewhere", at=(NOON - 2 * SILENT).isoformat())

    found = near_beat(lake, lake.heartbeat)

    assert found is not None
    assert refuse_ill(STREAM, lake, NOON)["shard"] == "2/2"


def test_status_says_which_process_has_which_share(lake: Lake) -> None:
    lake.open_for_writing()
    write(lake, "1/2", "silver.a")
    write(lake, "2/2", "silver.b", pid=GONE)

    said = succeeded("status", "--lake", lake.root).out

    here = own()
    assert f"stream  share 1/2: process {here['pid']} on {here['host']}, 1 tables" in said
    assert f"share 2/2: not running; it was process {GONE} on {here['host']}" in said
