"""Whatever fails outside, a person gets one sentence and a hint, and nothing is half-written."""

import fcntl
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from tests.cli import typed
from tests.cli.inside import strandline
from tests.cli.typed import ESCAPE, Answer

pytestmark = pytest.mark.slow

UNREACHABLE = "127.0.0.1:1"


def refused(answer: Answer, code: int, *words: str) -> None:
    """See that the answer is one message with a hint, on the side where errors belong."""
    message = " ".join(answer.err.split())
    assert answer.code == code, answer.printed
    assert answer.err.count("error:") == 1
    assert answer.err.count("hint:") == 1
    assert "Traceback" not in answer.printed
    assert ESCAPE not in answer.printed
    assert answer.out == ""
    for word in words:
        assert word in message


def files(folder: Path) -> set[str]:
    """Return what is in a folder, without the logs of programs."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in found if not name.startswith(("_logs", "_kafka"))}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder for a lake that is not there yet."""
    return tmp_path / "lake"


@pytest.fixture(params=["under a file", "in proc"])
def unwritable(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a folder in which even root cannot write."""
    if request.param == "in proc":
        return "/proc/lake"
    (tmp_path / "file").touch()
    return str(tmp_path / "file" / "lake")


@pytest.mark.parametrize("words", [("ledger",), ("up",), ("demo",), ("compare", "elsewhere")])
def test_a_lake_on_a_store_of_another_kind(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused, and no folder of that name is made."""
    monkeypatch.chdir(tmp_path)
    named = ("hdfs://host/lake",) if words[0] == "compare" else ("--lake", "hdfs://host/lake")

    refused(strandline(*words, *named), 2, "hdfs://host/lake", "--lake")

    assert not list(tmp_path.iterdir())


@pytest.mark.whole
@pytest.mark.parametrize("words", [("run",), ("produce", "--events", "9"), ("stream",), ("up",)])
def test_a_broker_that_is_down(words: tuple[str, ...], place: Path) -> None:
    """Trying again may help, and the address is there to be checked."""
    answer = strandline(*words, "--lake", place, env={"STRANDLINE_KAFKA": UNREACHABLE})

    refused(
        answer, 3, f"no Kafka broker answers at {UNREACHABLE}", "strandline up", "STRANDLINE_KAFKA"
    )
    assert not place.exists() or files(place) == set()


def test_our_own_broker_that_was_never_started(place: Path) -> None:
    """The hint is the verb that starts it."""
    refused(strandline("run", "--lake", place), 2, "no broker runs", "strandline up")


@pytest.mark.parametrize("address", ["localhost", "localhost:many", "http:" + "//127.0.0.1:9092"])
def test_a_wrong_address(address: str, place: Path) -> None:
    """Refused before anything is tried, with the variable's name."""
    answer = strandline("run", "--lake", place, env={"STRANDLINE_KAFKA": address})

    refused(answer, 2, "STRANDLINE_KAFKA", address)


def test_a_port_that_cannot_be(place: Path) -> None:
    """Five digits that are no port."""
    answer = strandline("produce", "--lake", place, env={"STRANDLINE_KAFKA": "127.0.0.1:99999"})

    refused(answer, 2, "127.0.0.1:99999")


def test_a_variable_with_a_typing_mistake(place: Path) -> None:
    """Silently ignored, it would cost an afternoon."""
    answer = strandline("tables", "--lake", place, env={"STRANDLINE_KAKFA": UNREACHABLE})

    refused(answer, 2, "STRANDLINE_KAKFA is not a setting")


@pytest.mark.parametrize("words", [("up",), ("run",), ("stream",), ("demo",)])
def test_a_lake_that_cannot_be_written(words: tuple[str, ...], unwritable: str) -> None:
    """Refused before Spark takes its seconds to start."""
    answer = strandline(*words, "--lake", unwritable)

    refused(answer, 2, f"the lake folder {unwritable} cannot be written", "--lake")


def test_a_port_in_use(place: Path) -> None:
    """Ours must not be started where another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        answer = strandline("up", "--port", port, "--lake", place)

    refused(answer, 2, f"port {port} cannot be used", "name another port")
    assert not (place / "_kafka" / "data").exists()


@pytest.fixture
def held(place: Path) -> Iterator[Path]:
    """Hold the lease of silver, as another process would."""
    path = Lake(place).lease(silver.TABLE)
    path.parent.local.mkdir(parents=True)
    with path.local.open("w") as file:
        json.dump({"pid": 4711, "host": "elsewhere"}, file)
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX)
        yield place


@pytest.mark.whole
@pytest.mark.parametrize("verb", ["run", "stream"])
def test_a_second_writer(verb: str, held: Path) -> None:
    """Refused at once, with the process that is the first."""
    answer = typed.strandline(verb, "silver.device_telemetry", "--lake", held)

    refused(answer, 3, "silver.device_telemetry has a writer already: process 4711 on elsewhere")
    assert files(held) == {"_leases", "_leases/silver.device_telemetry.lock"}


@pytest.mark.parametrize("verb", ["run", "stream", "ledger"])
def test_an_unknown_table(verb: str, place: Path) -> None:
    """The hint has the right names."""
    place.mkdir()

    answer = strandline(verb, "silver.divice_telemetry", "--lake", place)

    refused(answer, 2, "there is no table silver.divice_telemetry", "silver.device_telemetry,")


def test_a_table_without_its_source(place: Path) -> None:
    """The hint is the order in which to run them."""
    answer = strandline("run", "gold.device_signal_10m", "--lake", place)

    refused(
        answer, 2, "reads silver.device_telemetry, which does not exist", "strandline run silver."
    )


@pytest.mark.parametrize("verb", ["ledger", "query"])
def test_a_lake_that_is_not_there(verb: str, place: Path) -> None:
    """A question creates nothing."""
    words = ["SELECT 1"] if verb == "query" else []

    refused(strandline(verb, *words, "--lake", place), 2, f"there is no lake at {place}")

    assert not place.exists()


def test_a_lake_with_nothing_in_it(place: Path) -> None:
    """The hint is how to fill it."""
    place.mkdir()

    refused(strandline("ledger", "--lake", place), 2, "strandline produce", "strandline run")


def test_lakes_that_cannot_be_compared(place: Path) -> None:
    """They have no table in common."""
    refused(strandline("compare", place, place), 2, "no silver or gold table in common")


def test_a_question_that_would_change_something(place: Path) -> None:
    """The hint is a question as it may be asked."""
    place.mkdir()

    refused(
        strandline("query", "DROP TABLE x", "--lake", place), 2, "one SELECT", "SELECT count(*)"
    )


def test_a_demo_refuses_a_folder_with_other_files(place: Path) -> None:
    """It begins by throwing its lake away, so it must be sure that it is its own."""
    place.mkdir()
    (place / "thesis.txt").write_text("years of work")

    refused(strandline("demo", "--lake", place), 2, "not made by a demo", "--lake")

    assert (place / "thesis.txt").read_text() == "years of work"


def test_a_time_that_is_none(place: Path) -> None:
    """The hint has examples."""
    refused(strandline("stream", "--every", "soon", "--lake", place), 2, "'soon'", "500ms, 5s, 1m")


@pytest.mark.parametrize(
    "words",
    [("conjure",), ("run", "--fast"), ("run", "--mode", "slow"), ("query",), ("up", "--port", "0")],
)
def test_what_was_typed_wrong_is_answered_with_the_way_to_the_help(words: tuple[str, ...]) -> None:
    """The hint is the help of the verb in question."""
    answer = strandline(*words)

    assert answer.code == 2
    assert "--help" in answer.err
    assert "Traceback" not in answer.printed
    assert answer.out == ""
