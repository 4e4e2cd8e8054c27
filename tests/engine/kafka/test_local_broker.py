"""The broker starts on demand, keeps its records, and no other process is ever stopped."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime import processes
from strandline_infra import programs as recipe

needs_kafka = pytest.mark.kafka
LONG_AGO = 915_148_800_000  # 1999
FAR_AHEAD = 4_102_444_800_000  # 2100


@pytest.fixture(name="shared", scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a lake whose broker any test may start, kill or stop; it is stopped at the end."""
    lake = tmp_path_factory.mktemp("a läke & shared")
    yield lake
    broker.down(Lake(lake))


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Iterator[Path]:
    """Return a new lake; its broker is stopped at the end."""
    yield tmp_path / "lake"
    broker.down(Lake(tmp_path / "lake"))


def produce(address: str, topic: str, value: str, timestamp: int) -> None:
    """Send one record to partition 0 and wait until it is acknowledged."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    producer.produce(topic, value, partition=0, timestamp=timestamp)
    assert producer.flush(20) == 0


def consume(address: str, topic: str, count: int) -> list[tuple[str, int]]:
    """Return the first values and timestamps of partition 0."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "test", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=20)
    consumer.close()
    return [((m.value() or b"").decode(), m.timestamp()[1]) for m in messages]


# ---- without a broker -----------------------------------------------------------------------------------


def test_a_query_creates_nothing(tmp_path: Path) -> None:
    """`strandline status` in the wrong folder must not leave a lake behind."""
    assert broker.status(Lake(tmp_path / "lake")) is None
    assert broker.down(Lake(tmp_path / "lake")) is False
    assert not (tmp_path / "lake").exists()


def test_a_lake_that_cannot_be_written_is_a_definition_error(tmp_path: Path) -> None:
    """The user gets one sentence, not the stack of a Java tool."""
    (tmp_path / "file").touch()

    with pytest.raises(DefinitionError, match="cannot be written: Not a directory"):
        broker.up(Lake(tmp_path / "file" / "lake"))


def test_a_port_in_use_is_a_definition_error(lake: Path) -> None:
    """It is refused before Java is started, and by its number."""
    with socket.socket() as taken:
        taken.bind((recipe.HOST, 0))
        taken.listen()

        with pytest.raises(DefinitionError, match="Address already in use"):
            broker.up(Lake(lake), taken.getsockname()[1])


def test_a_storage_of_something_else_is_left_alone(lake: Path) -> None:
    """Formatting a folder with a user's files could not be undone."""
    data = lake / "_kafka" / "data"
    data.mkdir(parents=True)
    (data / "thesis.txt").touch()

    with pytest.raises(DataError, match="not the storage of a broker"):
        broker.up(Lake(lake))


@pytest.mark.whole
@pytest.mark.parametrize("written", ["", "{", "[]", "{}", '{"port": 1}'])
def test_a_broken_record_is_no_record(lake: Path, written: str) -> None:
    """A full disk leaves empty files."""
    (lake / "_kafka").mkdir(parents=True)
    (lake / "_kafka" / "broker.json").write_text(written)

    assert broker.status(Lake(lake)) is None
    assert broker.down(Lake(lake)) is False


def test_a_pid_that_belongs_to_another_process_by_now_is_not_touched(lake: Path) -> None:
    """Pids are reused within hours on a busy machine."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        state = {"port": 1, "controller_port": 2, "pid": stranger.pid}
        (lake / "_kafka").mkdir(parents=True)
        (lake / "_kafka" / "broker.json").write_text(json.dumps(state))

        assert broker.status(Lake(lake)) is None
        assert broker.down(Lake(lake)) is False
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.whole
def test_a_copied_lake_does_not_own_the_broker_of_the_first(tmp_path: Path) -> None:
    """`cp -r` copies the record too, with the pid in it."""
    mark = broker._mark(Place.of(tmp_path / "first" / "_kafka"))
    pid = processes.spawn(
        [sys.executable, "-c", "import time; time.sleep(600)", mark],
        folder=tmp_path,
        log=tmp_path / "log",
    )
    # While the shell becomes the program, the process has no arguments for a moment.
    while psutil.Process(pid).name() == "sh":
        time.sleep(0.02)
    for name in ("first", "copy"):
        (tmp_path / name / "_kafka").mkdir(parents=True)
        note = {"port": 1, "controller_port": 2, "pid": pid}
        (tmp_path / name / "_kafka" / "broker.json").write_text(json.dumps(note))

    assert broker.down(Lake(tmp_path / "copy")) is False
    assert broker.down(Lake(tmp_path / "first")) is True
    assert not processes.is_ours(pid, mark)


def test_a_process_that_ignores_the_request_is_made_to_end(tmp_path: Path) -> None:
    """`strandline down` must end, whatever state the broker is in."""
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    log = tmp_path / "log"
    pid = processes.spawn([sys.executable, "-uc", deaf, "mark"], folder=tmp_path, log=log)
    while not log.exists() or "deaf" not in log.read_text():
        os.sched_yield()

    assert processes.stop(pid, "mark", patience=0.2)
    assert not processes.is_ours(pid, "mark")


@pytest.mark.parametrize(
    "address", ["", "localhost", "a:b", "h:0", "h:65536", ":9092", "x://h:9092", "h:1,", "a b:1"]
)
def test_a_malformed_address_is_a_definition_error(address: str) -> None:
    """Trying again would change nothing, so no caller should wait for it."""
    with pytest.raises(DefinitionError, match="no address"):
        broker.check_reachable(address, {})


def test_an_option_that_the_client_does_not_know_is_named() -> None:
    """STRANDLINE_KAFKA_OPTIONS may contain a typing mistake."""
    with pytest.raises(DefinitionError, match=r'"sasl\.pasword"'):
        broker.check_reachable("127.0.0.1:1", {"sasl.pasword": "x"})


@pytest.mark.whole
def test_a_wrong_address_is_reported_with_its_reason() -> None:
    """`timed out` alone sends users to the wrong place."""
    with pytest.raises(TransientError, match=r"no Kafka broker answers at .*Connection refused"):
        broker.check_reachable("127.0.0.1:1", {}, patience=0.5)


# ---- with a broker --------------------------------------------------------------------------------------


@needs_kafka
def test_up_returns_the_broker_that_runs(shared: Path) -> None:
    """Every verb that needs a broker calls it."""
    first = broker.up(Lake(shared))

    assert broker.up(Lake(shared)) == first == broker.status(Lake(shared))
    with pytest.raises(DefinitionError, match="runs already"):
        broker.up(Lake(shared), 1)


@pytest.mark.whole
@needs_kafka
def test_a_topic_is_made_once(shared: Path) -> None:
    """Producing and running both make sure that their topics exist."""
    address = broker.up(Lake(shared)).address

    assert broker.create_topic(address, "once", 3, {}) is True
    assert broker.create_topic(address, "once", 5, {}) is False
    assert broker.topics(address, {})["once"] == 3
    with pytest.raises(DefinitionError, match="bad name"):
        broker.create_topic(address, "bad name", 1, {})


@pytest.mark.whole
@needs_kafka
@pytest.mark.parametrize("crash", [False, True])
def test_records_of_any_time_survive_the_end_of_the_broker(shared: Path, *, crash: bool) -> None:
    """Re-sent history has old timestamps; Kafka's defaults would delete or refuse them."""
    topic = f"survives-{crash}"
    before = broker.up(Lake(shared))
    broker.create_topic(before.address, topic, 1, {})
    given = [("old", LONG_AGO), ("new", FAR_AHEAD), ("old again", LONG_AGO)]
    for value, timestamp in given:
        produce(before.address, topic, value, timestamp)

    if crash:
        os.kill(before.pid, signal.SIGKILL)  # `up` comes at once, while the process is still ending
    else:
        broker.down(Lake(shared))
    after = broker.up(Lake(shared))

    assert after.pid != before.pid
    assert after.address == before.address
    assert consume(after.address, topic, 3) == given


@pytest.mark.whole
@needs_kafka
def test_a_broker_whose_starter_was_killed_is_found_again(shared: Path) -> None:
    """Between its start and the writing of its pid only its mark identifies it."""
    running = broker.up(Lake(shared))
    note = shared / "_kafka" / "broker.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"pid": None}))

    assert broker.up(Lake(shared)).pid == running.pid
    assert broker.down(Lake(shared)) is True
    assert broker.status(Lake(shared)) is None


@pytest.mark.whole
@needs_kafka
def test_a_broker_whose_lake_was_deleted_makes_way_for_a_new_one(shared: Path) -> None:
    """`rm -rf` of a lake is common, and nothing else would ever stop that broker."""
    before = broker.up(Lake(shared))
    broker.create_topic(before.address, "gone", 1, {})
    deleted(shared)
    # The living broker does it itself if it had not made the topic's folder by then.
    (shared / "_kafka" / "data" / "gone-0").mkdir(parents=True, exist_ok=True)

    after = broker.up(Lake(shared))

    assert not processes.is_ours(before.pid, broker._mark(Place.of(shared / "_kafka")))
    assert "gone" not in broker.topics(after.address, {})
    deleted(shared)
    assert broker.down(Lake(shared)) is True
    assert not shared.exists()


def deleted(folder: Path) -> None:
    """Remove a folder in which a broker still creates and renames files."""
    for _ in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)
    shutil.rmtree(folder)


@pytest.mark.whole
@needs_kafka
def test_two_commands_at_once_start_one_broker_in_spite_of_an_interrupted_format(
    lake: Path,
) -> None:
    """Also from processes that share only the folder."""
    half = lake / "_kafka" / "format-1" / "data"
    half.mkdir(parents=True)
    (half / "meta.properties").write_text("cut sho")
    code = (
        "import sys; from strandline.engine.lake.lake import Lake; from strandline.engine.kafka import broker\n"
        "print(broker.up(Lake(sys.argv[1])).pid)"
    )
    command = [sys.executable, "-c", code, str(lake)]

    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    pids = {process.communicate(timeout=300)[0] for process in both}

    running = broker.status(Lake(lake))
    assert running is not None
    assert pids == {f"{running.pid}\n"}


@needs_kafka
def test_a_broker_that_dies_while_starting_gives_its_last_error(lake: Path) -> None:
    """The message has the log's line with the cause."""
    data = lake / "_kafka" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=x\n")

    with pytest.raises(TransientError, match=r"ended while starting: .*node") as failure:
        broker.up(Lake(lake))

    assert "broker.log" in failure.value.hint
    assert broker.status(Lake(lake)) is None
