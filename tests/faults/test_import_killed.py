"""A month of history, imported into a lake beside its stream and killed in the middle, equals the same month through Kafka."""

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer
from strandline import catalog

from fleet.bronze import device_telemetry as bronze
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.place import Place
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import start
from tests.engine.records import drop, make
from tests.faults.lives import SLICE, family_killed, life
from tests.support.past import BROKEN, Sent, as_received, half_of, month, written
from tests.support.proofs import Times

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.prove(alone="a minute and a half"),
    pytest.mark.timeout(900),
]

BRONZE = SLICE[0]
TYPED = ("import", BRONZE, "--topic", bronze.NEWER.name)
FOR_EVER = {"retention.ms": "-1"}
PATIENCE = 300


def test_a_month_of_files_equals_the_same_month_through_kafka(  # noqa: PLR0913, PLR0917  # the broker, the lakes, and chance
    fresh: Place,
    address: str,
    anywhere: Place,
    tmp_path: Path,
    chance: random.Random,
    times: Times,
) -> None:
    """Silver, quarantine and gold; each file once; the stream goes on; both ledgers balance."""
    now = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)  # noqa: TID251  # the broker has a clock too
    past = month(chance, now - timedelta(days=40), days=30, a_day=times(20, 1_000))
    today = month(chance, now - timedelta(hours=12), days=1, a_day=300)[:150]
    parquet, lines = written(tmp_path / "past", past)
    with ExitStack() as beside:
        if times(0, 1):
            beside.enter_context(life(fresh))
        _send(address, today[:140])
        _read(fresh, alone=not times(0, 1))
        rows = len(as_received(past))
        killed(fresh, tmp_path, rows, size=times(250, 5_000))

        words = (*TYPED, tmp_path / "past", "--json", "--lake", fresh)
        rest = succeeded(*words).json

        assert rest["rows"] + rest["rows_before"] == rows
        assert 0 < rest["rows"] < rows
        again = succeeded(*words).json
        assert (again["rows"], again["rows_before"], again["brought"]) == (0, rows, 0)
        _send(address, today[140:])
    _read(fresh, alone=True)

    half = half_of(past)
    number = [each.payload for each in past[half:]].index(BROKEN)
    first = sum(each.payload != BROKEN for each in past[:half])
    torn = succeeded("why", f"device-telemetry/-1/{first + number}", "--json", "--lake", fresh).json
    assert torn["verdict"] == "quarantined"
    assert torn["evidence"]["imported"] == {"file": str(lines), "row": number + 1}
    good = succeeded("why", "device-telemetry/-1/0", "--json", "--lake", fresh).json
    assert good["evidence"]["imported"] == {"file": str(parquet), "row": 1}

    for topic in bronze.TABLE.topics:
        drop(address, topic)
        make(address, topic, FOR_EVER)
    _send(address, [*as_received(past), *today])
    other = anywhere / "through kafka"
    succeeded("run", *SLICE, "--lake", other, env={"STRANDLINE_KAFKA": address})
    for lake, imported in ((fresh, rows), (other, 0)):
        sheets = succeeded("ledger", "--audit", "--json", "--lake", lake).json
        assert [(each["faults"], each["waiting"]) for each in sheets] == [([], 0)] * 3
        assert [each["imported"] for each in sheets] == [imported, imported, 0]
    succeeded("compare", fresh, other, "--without-places")
    if times(0, 1):
        verified = succeeded("verify", *SLICE[1:], "--json", "--lake", fresh).json
        assert [each["equal"] for each in verified] == [True, True]


def killed(lake: Place, folder: Path, rows: int, size: int) -> None:
    """Type the import in a process of its own, and kill it after its first commit."""
    path = Lake(lake).table(catalog.find(BRONZE))
    words = (*TYPED, folder / "past", "--slice", size, "--lake", lake)
    process = start(*words, log=folder / "killed.log")
    deadline = time.monotonic() + PATIENCE
    while not sums_of(path).imported:
        assert process.poll() is None, (folder / "killed.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    family_killed(process)
    assert 0 < sum(sums_of(path).imported.values()) < rows, "it ended too early to prove anything"


def _read(lake: Place, *, alone: bool) -> None:
    """Let the tables read what was sent: by a run, or by the stream beside."""
    if alone:
        succeeded("run", *SLICE, "--lake", lake)
        return
    deadline = time.monotonic() + PATIENCE
    while not _all_read(lake):
        assert time.monotonic() < deadline
        time.sleep(1)


def _all_read(lake: Place) -> bool:
    """Whether each table has begun, and waits for nothing."""
    answer = strandline("ledger", "--json", "--lake", lake)
    if answer.code:
        return False  # the stream has just started
    return len(answer.json) == len(SLICE) and not any(each["waiting"] for each in answer.json)


def _send(address: str, sent: Sequence[Sent]) -> None:
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for number, each in enumerate(sent):
        producer.produce(
            bronze.NEWER.name,
            each.payload,
            partition=number % bronze.NEWER.partitions,
            timestamp=int(each.arrived_at.timestamp() * 1000),
        )
        if number % 1000 == 999:  # a part of the producer's queue
            producer.flush(30)
    producer.flush(30)
