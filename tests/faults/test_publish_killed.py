"""``strandline publish`` is killed again and again while its table changes: what the targets have is what the table has, each change once."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from strandline.engine.flow.publications import publications
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.cli import typed
from tests.faults.lives import PATIENCE, running
from tests.support import lakes
from tests.support.paid_shop import TABLE, TOPIC, Orders, made
from tests.support.postgres import Server, served
from tests.support.proofs import Times
from tests.support.published import committed

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve an empty database."""
    with served() as running_:
        running_.execute("CREATE DATABASE shop")
        yield running_


@pytest.mark.prove
def test_what_was_killed_again_and_again_is_equal(  # noqa: PLR0913, PLR0917  # fixtures
    fresh: Place,
    address: str,
    server: Server,
    tmp_path: Path,
    chance: random.Random,
    times: Times,
) -> None:
    """In the suite twice, in `make prove` ten times."""
    project, lines = made(tmp_path / "project"), tmp_path / "lines"
    env = {
        "STRANDLINE_PROJECT": str(project),
        "SHOP_DATABASE": server.url("shop"),
        "LINES": str(lines),
    }
    orders, log = Orders(fresh, chance), lakes.beside(fresh, ".publish.log")
    orders.add(20_000)
    words = ("publish", "--lake", fresh)
    for _ in range(times(2, 10)):
        sent = _read(fresh) + chance.randint(1, 6_000)
        for _ in range(chance.randint(1, 3)):
            orders.change()
        orders.add(3_000)
        with running(*words, "--json", log=log, env=env) as process:
            deadline = time.monotonic() + PATIENCE
            while _read(fresh) < sent:
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.01)

    orders.add(1)
    typed.strandline(*words, "--once", env=env).succeeded()

    had = {each["name"]: each for each in publications(Lake(fresh))}
    assert [(each["lag"], each["refused"], each["away"]) for each in had.values()] == [
        (0, 0, None)
    ] * 3
    _equal_in_postgres(server, orders, had["to-postgres"])
    _equal_in_kafka(address, orders, had["to-kafka"])
    _equal_in_lines(lines, orders, had["to-lines"])


def _read(lake: Place) -> int:
    return sum(each["read"] for each in publications(Lake(lake)))


def _equal_in_postgres(server: Server, orders: Orders, figures: Any) -> None:  # noqa: ANN401  # JSON
    found = server.ask(f"SELECT order_id, amount FROM {TABLE}", "shop")  # noqa: S608  # our own name
    assert len(found) == len(orders.amounts)
    assert dict(found) == orders.amounts
    ((position,),) = server.ask("SELECT position FROM strandline_positions", "shop")
    assert json.loads(position)["read"] == figures["accepted"]


def _equal_in_kafka(address: str, orders: Orders, figures: Any) -> None:  # noqa: ANN401  # as above
    records = committed(address, TOPIC)
    ids = Counter(each.headers["id"] for each in records)
    left: dict[str, Decimal] = {}
    for each in records:
        name = json.loads(each.key)["order_id"]
        assert (each.value is None) is (each.headers["op"] == "delete")
        if each.value is None:
            del left[name]
        else:
            left[name] = Decimal(json.loads(each.value)["amount"])
    assert left == orders.amounts
    assert set(ids.values()) == {1}
    assert len(ids) == figures["accepted"]


def _equal_in_lines(lines: Path, orders: Orders, figures: Any) -> None:  # noqa: ANN401  # as above
    left: dict[str, Decimal] = {}
    by_id: dict[str, set[str]] = {}
    # A kill in the middle of a write leaves a line that is no line.
    for line in lines.read_text().splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        by_id.setdefault(found["id"], set()).add(str(found["row"]))
        if found["row"] is None:
            left.pop(found["key"], None)
        else:
            left[found["key"]] = Decimal(found["row"]["amount"])
    assert left == orders.amounts
    assert {len(each) for each in by_id.values()} == {1}
    assert len(by_id) == figures["accepted"]
