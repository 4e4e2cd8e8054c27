"""The metrics of programs say what the watchdog finds."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import confluent_kafka
import pytest
from strandline import catalog

from strandline.core.table import Ingested
from strandline.engine.kafka.slices import unread_offsets
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.jvm import BUSY
from strandline.engine.service.metrics import Processes
from strandline.engine.service.metrics_page import LakeLook
from strandline.engine.service.stream_health import HANDED_OVER, TURN, Order, write_desired
from tests.architecture.tree import ROOT
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, written
from tests.infra.test_runbooks import died
from tests.support.watched_lake import FEED, values, watched_lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def seen(lake: Lake, now: datetime) -> dict[tuple[str, ...], float]:
    return {
        (each.metric.name.removeprefix("strandline_"), *each.labels): each.value
        for each in Processes(lake, now).samples()
    }


def test_a_stream_that_runs_has_the_figures_of_its_heartbeat(tmp_path: Path) -> None:
    lake = watched_lake(tmp_path, NOW)

    found = seen(lake, NOW)

    assert found["process_up", "stream"] == found["process_wanted", "stream"] == 1
    assert found["process_wanted", "alerts"] == 0
    assert found["process_heartbeat_timestamp_seconds", "stream"] == NOW.timestamp()
    assert found["process_restart_attempts", "stream"] == 1
    assert found["table_failed_attempts", GOLD.id] == 6
    assert found["table_waiting", SILVER.id, "gate"] == 1
    assert found["table_waiting", SILVER.id, "outage"] == 0
    assert found["table_state_rows", SILVER.id] == 77
    assert found["feed_lag_offsets", FEED] == 5
    assert found["feed_alerts_raised_total", FEED] == 2
    assert Processes(lake, NOW).offsets_behind[BRONZE.id] == 12


@pytest.mark.whole
@pytest.mark.parametrize(("minutes", "ill"), [(0, "failing"), (2, "silent")])
def test_what_is_wrong_has_the_name_of_the_page(tmp_path: Path, minutes: int, ill: str) -> None:
    lake = watched_lake(tmp_path, NOW)

    found = seen(lake, NOW + timedelta(minutes=minutes))

    assert [key[2] for key, is_so in found.items() if key[0] == "process_ill" and is_so] == [ill]


def _has(lake: Lake, which: str, change: Callable[[dict[str, Any]], None]) -> None:
    place = getattr(lake, which)
    beat = json.loads(place.text() or "")
    change(beat)
    place.put(json.dumps(beat))


def _of(pulse: str, **news: object) -> Callable[[dict[str, Any]], None]:
    return lambda beat: beat["tables"][pulse].update(news)


LONG_AGO = (NOW - timedelta(minutes=40)).isoformat()
TAKEN = {"says": "taken over", "hint": "", "kind": "fenced", "since": LONG_AGO}
CASES: dict[str, Callable[[dict[str, Any]], None]] = {
    "dead": lambda beat: beat.update(alive=False),
    "silent": lambda beat: beat.update(at=LONG_AGO),
    "stuck": lambda beat: next(iter(beat["tables"].values())).update(lag=9, behind=LONG_AGO),
    "fenced": _of(SILVER.id, failing={**TAKEN, "tries": 2}),
}


@pytest.mark.whole
@pytest.mark.parametrize(
    ("program", "ill"),
    re.findall(
        r'strandline_process_ill\{process="(\w+)", ill="(\w+)"\} == 1',
        (ROOT / "infra/monitoring/alerts.yml").read_text(),
    ),
)
def test_what_an_alert_names_can_be_so(tmp_path: Path, program: str, ill: str) -> None:
    """No heartbeat whatever made the metric say *fenced*: its alert could not fire, and another named the wrong page."""
    lake = watched_lake(tmp_path, NOW)
    orders = {"stream": lake.order, "alerts": lake.alerts_order}
    write_desired(lake, Order(runs=True, at=NOW.isoformat(), by="on-call"), orders[program])
    assert not seen(lake, NOW)["process_ill", program, ill]

    if ill == "stuck":  # which no table is before the stream has run for long enough
        write_desired(lake, Order(runs=True, at=LONG_AGO, by="on-call"), orders[program])
    _has(lake, {"stream": "heartbeat", "alerts": "feeds_beat"}[program], CASES[ill])

    assert seen(lake, NOW)["process_ill", program, ill] == 1


@pytest.mark.whole
def test_a_fenced_table_is_seen_beside_one_that_fails(tmp_path: Path) -> None:
    """The heartbeat has one that fails already; each of the two has an alert."""
    lake = watched_lake(tmp_path, NOW)
    _has(lake, "heartbeat", _of(SILVER.id, failing={**TAKEN, "tries": 30}))

    found = seen(lake, NOW)

    assert found["process_ill", "stream", "fenced"] == 1
    assert found["process_ill", "stream", "failing"] == 1


def test_a_stream_that_died_is_not_up_and_has_no_figures(tmp_path: Path) -> None:
    """Its last lag is of a moment long ago."""
    lake = Lake(tmp_path)
    died(lake)

    found = seen(lake, datetime.now(UTC))  # noqa: TID251  # the file was written by the clock

    assert found["process_up", "stream"] == 0
    assert found["process_ill", "stream", "dead"] == 1
    assert not any(key[0].startswith("table_") for key in found)


@pytest.mark.whole
@pytest.mark.parametrize("minutes", [0, 2], ids=["alive", "suspended"])
def test_while_no_stream_measures_the_lag_kafka_is_asked(tmp_path: Path, minutes: int) -> None:
    """It was 0, or of the last heartbeat, while hundreds waited: no alarm for lag could fire."""
    lake = watched_lake(tmp_path, NOW)
    now = NOW + timedelta(minutes=minutes)
    page = LakeLook(catalog.tables(), lake, lambda: now, str, lambda: {BRONZE.id: 300})
    page.look()

    lag = values(page)["strandline_table_lag_rows", BRONZE.id]

    assert lag == (300 if minutes else 12)


def test_a_dead_stream_is_seen_also_where_its_lag_cannot_be_asked(tmp_path: Path) -> None:
    """One folder of another user, and the metrics said for ever that the stream was up."""
    lake = watched_lake(tmp_path, NOW)
    failures: list[str] = []

    def refused() -> dict[str, int]:
        raise PermissionError(13, "Permission denied", "bronze")

    page = LakeLook(catalog.tables(), lake, lambda: NOW, failures.append, refused)
    page.look()
    assert values(page)["strandline_process_up", "stream"] == 1
    beat = json.loads(lake.heartbeat.text() or "")
    lake.heartbeat.put(json.dumps({**beat, "alive": False}))

    page.look()

    found = values(page)
    assert found["strandline_process_up", "stream"] == 0
    assert found["strandline_process_ill", "dead", "stream"] == 1
    assert found["strandline_look_failed", "unread"] == 1
    assert [each.partition(":")[0] for each in failures] == ["unread"]


class Cluster:
    """A cluster on which one topic was deleted and each other has one partition of 300 records."""

    made: ClassVar[list["Cluster"]] = []
    deleted = ""

    def __init__(self, _: object) -> None:
        """Connect."""
        self.is_open = True
        self.made.append(self)

    def list_topics(self, name: str, timeout: float) -> SimpleNamespace:
        """Return the partitions of a topic."""
        assert timeout
        error = "no such topic" if name == self.deleted else None
        return SimpleNamespace(topics={name: SimpleNamespace(error=error, partitions={0: None})})

    def get_watermark_offsets(self, _: object, timeout: float) -> tuple[int, int]:
        """Return the ends of a partition."""
        assert timeout
        return 0, 300

    def close(self) -> None:
        """Disconnect."""
        self.is_open = False


def test_a_table_that_cannot_be_asked_hides_the_lag_of_no_other_and_one_client_asks_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first had no topic any more, and the lag of all was unknown: no alarm for lag could fire."""
    lake = Lake(tmp_path)
    deleted, torn, *others = (each for each in catalog.tables() if isinstance(each, Ingested))
    for table in (deleted, torn, *others):
        written(lake.table(table), numbers(3), entry(table).encoded())
    commits = (lake.table(torn).local / "_delta_log").glob("*.json")
    max(commits).write_text('{"add": {"pa')
    monkeypatch.setattr(confluent_kafka, "Consumer", Cluster)
    monkeypatch.setattr(Cluster, "made", [])
    monkeypatch.setattr(Cluster, "deleted", deleted.topics[0].name)

    found = unread_offsets(catalog.tables(), lake, "127.0.0.1:9", {})

    assert found == {table.id: 300 * len(table.topics) for table in others}
    assert [each.is_open for each in Cluster.made] == [False]


@pytest.mark.whole
def test_a_cluster_that_is_away_is_no_error_of_the_metrics(tmp_path: Path) -> None:
    lake = watched_lake(tmp_path, NOW)
    assert unread_offsets(catalog.tables(), lake, None, {}) == {}
    assert unread_offsets([BRONZE], lake, "127.0.0.1:9", {}) == {}


def test_a_busy_machine_is_no_outage_of_a_service(tmp_path: Path) -> None:
    lake = watched_lake(tmp_path, NOW)
    beat = json.loads(lake.heartbeat.text() or "")
    beat["tables"][SILVER.id]["away"] = f"a Python worker did not start: {BUSY}"
    lake.heartbeat.put(json.dumps(beat))

    found = seen(lake, NOW)

    assert found["table_waiting", SILVER.id, "outage"] == 0
    assert found["table_waiting", SILVER.id, "busy"] == 1


@pytest.mark.parametrize(
    ("away", "reason"),
    [
        (f"{HANDED_OVER}promote by process 3 on host; it goes on by itself", "handed_over"),
        (f"{TURN}; 24 tables do at once", "turn"),
        ("no Kafka broker answers", "outage"),
    ],
)
def test_only_a_service_that_is_away_is_an_outage(tmp_path: Path, away: str, reason: str) -> None:
    """A promotion of more than a quarter of an hour was alarmed as a service that is away."""
    lake = watched_lake(tmp_path, NOW)
    _has(lake, "heartbeat", _of(SILVER.id, gate=None, away=away))

    found = seen(lake, NOW)

    waits = [
        key[2] for key, is_so in found.items() if key[:2] == ("table_waiting", SILVER.id) and is_so
    ]
    assert waits == [reason]


def test_a_file_that_is_gone_is_a_figure_of_its_table(tmp_path: Path) -> None:
    """No attempt fails of it, so no rule saw it."""
    lake = watched_lake(tmp_path, NOW)
    assert not seen(lake, NOW)["table_files_gone", SILVER.id]

    _has(lake, "heartbeat", _of(SILVER.id, broken="its file a.parquet is gone, or was cut"))

    assert seen(lake, NOW)["table_files_gone", SILVER.id] == 1
    rules = (ROOT / "infra/monitoring/alerts.yml").read_text()
    assert "expr: strandline_table_files_gone == 1" in rules
