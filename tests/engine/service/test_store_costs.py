"""Each request to a store is counted, for the table in whose folder it is: what a server hears is what is said, and nothing is shared out."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.engine.lake.duckdb_table import session, view_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import REQUESTS
from strandline.engine.service.maintain import Policy, left, maintain
from tests.cli.typed import succeeded
from tests.engine.written import BRONZE, GOLD, SILVER, small_lake
from tests.support.counted_requests import Requests, counting, request_of
from tests.support.events import readings, received
from tests.support.relay import relaying
from tests.support.s3_server import S3Server

DELTA_RS = "object_store/0.13"
"""How the client of delta-rs calls itself; ours is of a later version."""

FOLDERS = {"bronze", "silver", "gold", "quarantine", "resolutions"}

EVENTS = """
    batch | id | device | event_at | arrived_at | value
    0     | e1 | d1     | 09:00:00 | 09:00:01   | 1.5
    0     | e2 | d2     | 07:00:00 | 09:02:00   | 3.5
    1     | e3 | d2     | 12:00:00 | 12:00:01   | 4.5
"""

Counts = dict[tuple[str, str], int]
"""Requests by the table, and by what is asked."""


@pytest.fixture
def heard(
    s3: S3Server, bucket: Place, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Lake, Requests]]:
    """Return a lake on the server, and what the server hears of this process from here on."""
    with counting(s3.address) as requests:
        monkeypatch.setenv("AWS_ENDPOINT_URL", requests.address)
        lake = Lake(bucket)
        REQUESTS.take()
        yield lake, requests


def test_what_python_sends_is_what_the_server_hears(heard: tuple[Lake, Requests]) -> None:
    """Of each way to read and to write a file or a folder, also what is sent in parts."""
    lake, requests = heard
    table, other = lake.table(SILVER), lake.checkpoint(GOLD)
    large = table / "large"

    for size in (0, 9, 5 << 20):
        (table / f"{size}").put_bytes(b"a" * size)
    large.put_bytes(b"a" * (6 << 20))
    for size in (9, 10 << 20, 11 << 20):
        with (table / f"{size}.written").written() as file:
            for begin in range(0, size, 1 << 20):
                file.write(b"b" * min(1 << 20, size - begin))
    assert (table / "new").create("1")
    assert not (table / "new").create("2")
    assert (table / "new").exchange("3", "no such tag") is None
    known = (table / "new").tagged()
    assert known is not None
    assert (table / "new").exchange("4", known[1]) is not None
    for line in ("one", "two"):
        (other / "log").append(line)
    (table / "new").copy(other / "copied")
    (other / "copied").move(other / "moved")
    assert [(table / name).exists() for name in ("new", "none")] == [True, False]
    assert [(table / name).is_file() for name in ("new", "none")] == [True, False]
    assert (table / "none").text() is None
    assert table.names_from("n") == ["new"]
    assert len(table.names()) == len([*table.files()]) == len([*table.listed()]) == 8
    assert large.size() == 6 << 20
    assert large.stamp()
    assert large.modified_at()
    assert large.last_bytes(7) == b"a" * 7
    with large.opened() as read:
        assert read.read(3) == b"aaa"
        read.seek(5 << 20)
        assert read.read() == b"a" * (1 << 20)
    (other / "log").remove_file()
    other.remove()

    assert _sent(lake) == _of(lake, requests)


def test_what_arrow_and_duckdb_read_is_counted_as_well(heard: tuple[Lake, Requests]) -> None:
    """They read through the same client, part by part, and get the rows that were written."""
    lake, requests = heard
    files = [lake.table(SILVER) / f"{number}.parquet" for number in range(2)]
    for number, place in enumerate(files):
        with place.written() as file:
            pq.write_table(pa.table({"n": range(number, 400_000 + number)}), file)

    duck = session()
    view_of(duck, "rows", [str(each) for each in files])
    found = duck.execute("SELECT count(*), sum(n) FROM rows WHERE n > 399_990").fetchone()
    with files[0].opened() as file:
        whole = pq.read_table(file)

    assert found == (19, sum(range(399_991, 400_000)) + sum(range(399_991, 400_001)))
    assert whole["n"].to_pylist() == list(range(400_000))
    assert _sent(lake) == _of(lake, requests)


def test_maintenance_asks_for_no_table_that_is_not_there(
    heard: tuple[Lake, Requests], tmp_path: Path
) -> None:
    """A catalog has many: a look at each of them, for each folder that is maintained, were most of what it sent."""
    lake, requests = heard
    disk = small_lake(tmp_path)
    for file in disk.root.files():
        (lake.root / file.below(disk.root)).put_bytes(file.bytes() or b"")
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)

    done = [each.table for each in maintain(lake, now, Policy(go=True, untouched=timedelta(0)))]
    found = [*left(lake, now)]

    books = {f"{folder}.{SILVER.name}" for folder in ("quarantine", "resolutions")}
    there = {BRONZE.id, SILVER.id, GOLD.id, *books}
    assert set(done) <= there
    assert len(done) >= 4
    assert found == []
    assert {_owner(lake, each.key) for each in requests.all()} - {""} <= there


@pytest.mark.whole
def test_pages_of_a_listing_are_requests(heard: tuple[Lake, Requests]) -> None:
    """A thousand names are one, and the next name is another; they are removed by pages as well."""
    lake, requests = heard
    places = [lake.table(SILVER) / f"{number:04}" for number in range(1_001)]
    with ThreadPoolExecutor(16) as pool:
        [*pool.map(lambda each: each.put_bytes(b"a"), places)]

    assert len(lake.table(SILVER).names()) == len([*lake.table(SILVER).files()]) == 1_001
    assert lake.table(SILVER).exists()
    places[-1].remove_file()
    assert len(lake.table(SILVER).names()) == 1_000
    lake.table(SILVER).remove()

    found = _sent(lake)
    assert found == _of(lake, requests)
    assert found[SILVER.id, "LIST"] == 2 + 2 + 1 + 1 + 1


def test_what_is_counted_is_bounded_and_a_rebuild_is_of_its_table() -> None:
    """Of more folders than are counted each for itself the number is known; nested lakes are each their own; of no lake, no table."""
    counts = type(REQUESTS)()
    counts.watch("b/lake")
    counts.watch("b/lake/_rebuild/gold.a")
    for address in ("b/lake/silver/a/_delta_log/0.json", "b/lake/_rebuild/gold.a/gold/a/x"):
        counts.add("PUT", address)
    for address in ("b/lakes/silver/a/x", "c/silver/a/x"):
        counts.add("GET", address, 2)

    assert counts.take() == {
        ("PUT", "b/lake", "silver/a"): 1,
        ("PUT", "b/lake/_rebuild/gold.a", "gold/a"): 1,
        ("GET", "", ""): 4,
    }

    for number in range(counts.MOST + 5):
        counts.add("PUT", f"b/lake/_alarms/{number}")
    found = counts.take()
    assert len(found) == counts.MOST + 1
    assert found["PUT", "", ""] == 5
    assert counts.take() == {}


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_requests_of_a_run_and_of_maintenance_are_those_that_the_server_hears(
    s3: S3Server, bucket: Place, tmp_path: Path
) -> None:
    """Spark's and Python's, table by table, until the line itself is written; delta-rs sends some that are in no sum."""
    lake = Lake(bucket)
    received(lake, readings(EVENTS))
    env = {**s3.environment, "XDG_STATE_HOME": str(tmp_path)}

    for words in (("run", SILVER.id, GOLD.id), ("maintain",)):
        truth = Truth(lake)
        with relaying(s3.address, truth.hear) as relay:
            succeeded(*words, "--lake", bucket, env=env | {"AWS_ENDPOINT_URL": relay.address})

        ours = Counter[tuple[str, str]]()
        used = _cost(bucket, env)["processes"]
        (process,) = (each for each in used if each["program"] == words[0])
        for name, each in process["requests"].items():
            ours.update({(name, asked): times for asked, times in each.items()})
        assert _removed_together(ours) == _removed_together(truth.ours)
        if words[0] == "run":
            assert {name for name, _ in ours} >= {SILVER.id, GOLD.id, f"quarantine.{SILVER.name}"}
            assert min(ours[SILVER.id, each] for each in ("GET", "HEAD", "PUT", "LIST")) > 0

    found = _cost(bucket, env | {"STRANDLINE_PRICE_MILLION_WRITES": "5"})
    (silver,) = (each for each in found["tables"] if each["table"] == SILVER.id)
    assert silver["price"] == pytest.approx((silver["writes"] + silver["lists"]) * 5e-6, abs=1e-6)
    names = {each["table"] for each in found["tables"]}
    of_silver = {name.removeprefix("silver.") for name in names if name.startswith("silver.")}
    names |= {f"{books}.{name}" for name in of_silver for books in ("quarantine", "resolutions")}
    sent = (of for each in found["processes"] for of in each["requests"].items())
    said = sum(each[kind] for each in found["tables"] for kind in KINDS)
    assert said == sum(sum(each.values()) for name, each in sent if name in names) > 0


KINDS = ("reads", "writes", "lists", "deletes")


class Truth:
    """What a server has heard of a program until that wrote what it had used."""

    def __init__(self, lake: Lake) -> None:
        """Begin with nothing."""
        self._lake = lake
        self._is_over = False
        self.ours: Counter[tuple[str, str]] = Counter()
        self.of_delta_rs: Counter[tuple[str, str]] = Counter()

    def hear(self, head: str) -> bool:
        """Count a request; its answer is passed on."""
        request = request_of(head)
        self._is_over |= "/_costs/" in request.key
        if not self._is_over:
            found = self.of_delta_rs if DELTA_RS in head else self.ours
            found[_owner(self._lake, request.key), request.method] += 1
        return True


def _owner(lake: Lake, key: str) -> str:
    """Return in which table's folder an object is, or which table has it in its name."""
    root = f"{lake.root.path.partition('/')[2]}/"
    folder, _, rest = key.removeprefix(root).partition("/")
    name = rest.partition("/")[0]
    if not key.startswith(root) or not name:
        return ""
    if folder in FOLDERS:
        return f"{folder}.{name}"
    return ".".join(name.split(".")[:2]) if name.partition(".")[0] in FOLDERS else ""


def _of(lake: Lake, requests: Requests) -> Counts:
    """Return what a server has heard."""
    found: Counter[tuple[str, str]] = Counter()
    for each, times in requests.all().items():
        found[_owner(lake, each.key), each.method] += times
    return _removed_together(found)


def _sent(lake: Lake) -> Counts:
    """Return what was counted here."""
    found: Counter[tuple[str, str]] = Counter()
    for (asked, of, folders), times in REQUESTS.take().items():
        name = _owner(lake, f"{of.partition('/')[2]}/{folders}/") if of else ""
        found[name, asked] += times
    return _removed_together(found)


def _removed_together(found: Counter[tuple[str, str]]) -> Counts:
    """Return counts in which removals are of no table: which objects a request removes is not in its head."""
    together: Counter[tuple[str, str]] = Counter()
    for (name, asked), times in found.items():
        together["" if asked == "DELETE" else name, asked] += times
    return dict(together)


def _cost(lake: Place, env: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(succeeded("cost", "--lake", lake, "--json", env=env).out)
    return found
