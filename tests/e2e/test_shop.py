"""A shop as a user writes it, beside what `strandline init` makes: one topic with several kinds, lists, a file of prices, local days."""

import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.cli.typed import Answer, start, strandline
from tests.support.postgres import served
from tests.support.published import committed, newest

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.whole]

MODULES = Path(__file__).with_name("shop")
EVENTS = 6_000
HELSINKI = ZoneInfo("Europe/Helsinki")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the project, and send and run all once, as its reader would."""
    above = tmp_path_factory.mktemp("above")
    strandline("init", "shop", cwd=above).succeeded()
    root = above / "shop"
    for name in ("orders", "sales_10m"):
        for file in root.rglob(f"*{name}.py"):
            file.unlink()
    for file in MODULES.rglob("*.txt"):
        shutil.copy(file, root / "shop" / file.relative_to(MODULES).with_suffix(""))
    shutil.copy(MODULES / "products.csv", root)
    done = typed(root, "demo", "--events", EVENTS)
    assert f"balanced: {EVENTS:,} events, each in exactly one place" in done.out
    return root


def typed(root: Path, *words: object) -> Answer:
    """Type a verb in the project, and see that it succeeds."""
    return strandline(*words, cwd=root, timeout=900).succeeded()


def rows(root: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of the demo's lake."""
    layer, _, name = table.partition(".")
    found = opened(Lake(Place.of(root / ".lake/demo")).root / layer / name)
    return list(found.to_pyarrow_table().to_pylist())


def sent(root: Path, kind: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the records of a kind that can be read, with their events, in the order of their arrival."""
    for row in sorted(rows(root, "bronze.shop_events"), key=lambda each: each["_offset"]):
        try:
            event = json.loads(row["_payload"])
        except ValueError:
            continue
        if event["type"] == kind:
            yield row, event


def test_revenue_is_that_of_the_records_by_price_and_local_day(shop: Path) -> None:
    """Computed from the bytes of bronze by Python alone: each order once, without tests and those with a bad item."""
    prices = dict(line.split(",") for line in (shop / "products.csv").read_text().split()[1:])
    orders = {event["order_id"]: event for _, event in sent(shop, "order")}
    expected: Counter[tuple[str, Any]] = Counter()
    for event in orders.values():
        lines = [(each["sku"], each["n"]) for each in event.get("lines", ())]
        items = lines + [(each["product"], each["quantity"]) for each in event.get("items", ())]
        if event.get("is_test") or any(quantity == 0 for _, quantity in items):
            continue
        day = datetime.fromisoformat(event["ordered_at"]).astimezone(HELSINKI).date()
        for product, quantity in items:
            expected[product, day] += quantity

    found = {(each["product"], each["day"]): each for each in rows(shop, "gold.revenue_daily")}
    assert found
    days = {day for _, day in found}
    assert {key: each["quantity"] for key, each in found.items()} == {
        key: n for key, n in expected.items() if key[1] in days
    }
    for (product, _), each in found.items():
        assert each["revenue"] == Decimal(prices[product]) * each["quantity"]


def test_visitors_and_sessions_are_those_of_the_records(shop: Path) -> None:
    """A visitor is counted once a day, and each step is in one session."""
    visitors: dict[Any, set[str]] = {}
    steps = 0
    for _, event in sent(shop, "visit"):
        day = datetime.fromisoformat(event["at"]).astimezone(HELSINKI).date()
        visitors.setdefault(day, set()).add(event["visitor"])
        steps += 1
    found = {each["day"]: each["visitors"] for each in rows(shop, "gold.active_daily")}
    assert found
    assert found == {day: len(visitors[day]) for day in found}
    sessions = rows(shop, "gold.funnel")
    assert all(each["steps"] == each["views"] + each["carts"] + each["pays"] for each in sessions)
    assert (
        0 <= steps - sum(each["steps"] for each in sessions) < steps / 10
    )  # the last ones are open


KILLS = 10


def test_paid_orders_are_where_they_are_to_be_after_ten_kills(shop: Path) -> None:
    """Of readers of the topic and of the database: each row of the table, once, whenever the publisher was killed."""
    lake, seed = shop / ".lake/demo", random.randrange(10_000)  # noqa: S311  # no secret
    chance = random.Random(seed)  # noqa: S311  # as above
    print(f"seed {seed}", flush=True)  # noqa: T201  # shown when the test fails
    typed(shop, "up", "--lake", lake)
    try:
        with served() as database:
            database.execute("CREATE DATABASE shop")
            env = {"SHOP_DATABASE": database.url("shop")}
            for life in range(KILLS):
                # Every third begins with all rows again, so that there is something to send whenever it is killed.
                words = ("publish", "--again") if life % 3 == 0 else ("publish",)
                log = shop / f"publish-{life}.log"
                running = start(*words, "--lake", lake, log=log, env=env, cwd=shop)
                with suppress(subprocess.TimeoutExpired):
                    running.wait(chance.uniform(0.5, 4))
                    assert running.returncode == 0, log.read_text()
                running.kill()
                running.wait()
            last = strandline("publish", "--once", "--json", "--lake", lake, cwd=shop, env=env)
            sent_to = last.succeeded().json
            status = typed(shop, "status", "--lake", lake, "--json").json
            address = str(status["kafka"])  # type: ignore[index]
            in_topic = newest(committed(address, "paid-orders"))
            in_database = database.ask("SELECT order_id, amount, paid_at FROM paid_orders", "shop")
    finally:
        typed(shop, "down", "--lake", lake)

    paid = {(e["order_id"], e["amount"], e["paid_at"]) for e in rows(shop, "silver.payments")}
    assert len(paid) > EVENTS / 10
    assert [each["refused"] for each in sent_to] == [0, 0]  # type: ignore[attr-defined]
    assert sorted(in_database) == sorted(paid)
    assert {
        (each["order_id"], Decimal(each["amount"]), datetime.fromisoformat(each["paid_at"]))
        for each in in_topic
    } == paid
    assert len(in_topic) == len(paid)


def test_each_table_is_computed_again_to_the_same_rows(shop: Path) -> None:
    """By a batch, and by a stream that is killed."""
    lake = shop / ".lake/demo"
    found = typed(shop, "verify", "--all", "--splits", 2, "--kills", 1, "--json", "--lake", lake)
    assert isinstance(found.json, list)
    assert {each["table"]: each["equal"] for each in found.json} == {
        f"{folder}.{file.name.removesuffix('.py.txt')}": True
        for folder in ("silver", "gold")
        for file in (MODULES / folder).glob("*.py.txt")
    }
