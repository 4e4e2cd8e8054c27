"""A project of one's own that publishes paid orders to a topic, a table of PostgreSQL and a function; its table is written by the test."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from strandline.engine.lake.place import Place

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
TOPIC, TABLE = "paid-orders", "shop_paid_orders"
MODULES = {
    "__init__": "",
    "bronze.__init__": "",
    "bronze.orders": """
from strandline import Ingested, Topic

TABLE = Ingested(name="orders", reads=(Topic(name="orders", partitions=1),))
""",
    "silver.__init__": "",
    "silver.orders": """
from strandline import Judged
from ..bronze import orders as bronze


def orders(events):
    raise NotImplementedError


TABLE = Judged(name="orders", reads=(bronze.TABLE,), transform=orders, key=("order_id",), event_at="paid_at")
""",
    "gold.__init__": "",
    "gold.paid_orders": """
from strandline import Upserted
from ..silver import orders


def paid_orders(rows):
    raise NotImplementedError


TABLE = Upserted(
    name="paid_orders",
    reads=(orders.TABLE,),
    transform=paid_orders,
    key=("order_id",),
    event_at="paid_at",
    window_from="paid_at",
)
""",
    "publish": '''
import json
import os

from strandline import KafkaTopic, PostgresTable, Publish

from .gold import paid_orders


def lines(changes):
    """Append each change to a file."""
    with open(os.environ["LINES"], "a") as file:
        for each in changes:
            row = None if each.row is None else {"amount": str(each.row["amount"])}
            file.write(json.dumps({"id": each.id, "key": each.key["order_id"], "row": row}) + "\\n")


PUBLISH = (
    Publish("to-kafka", paid_orders.TABLE, to=KafkaTopic("paid-orders", partitions=3)),
    Publish("to-postgres", paid_orders.TABLE, to=PostgresTable("shop_paid_orders", url="SHOP_DATABASE")),
    Publish("to-lines", paid_orders.TABLE, to=lines),
)
''',
}


def made(root: Path) -> Path:
    """Write the project, and return its folder."""
    for name, text in MODULES.items():
        file = root.joinpath("shop", *name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "strandline.toml").write_text('[project]\ntables = "shop"\n')
    return root


class Orders:
    """The table, as streams and repairs change it: rows come, are replaced and removed, files are put together."""

    def __init__(self, lake: Place, chance: random.Random) -> None:
        """Begin with no table."""
        self.path = str(lake / "gold" / "paid_orders")
        self.amounts: dict[str, Decimal] = {}
        self._chance, self._number = chance, 0

    def add(self, count: int, *, amount: str = "1.00", text: str = "") -> None:
        """Append new orders."""
        names = [f"o{number}" for number in range(self._number, self._number + count)]
        self._number += count
        self._write(dict.fromkeys(names, Decimal(amount)), text=text)

    def change(self) -> None:
        """Do one of what changes a table."""
        some = self._chance.sample(
            sorted(self.amounts), min(len(self.amounts), self._chance.randint(1, 400))
        )
        match self._chance.choice(["add", "add", "replace", "remove", "compact"]):
            case "add":
                self.add(self._chance.randint(1, 3_000))
            case "replace" if some:
                amount = Decimal(self._chance.randint(100, 999)) / 100
                self._write(dict.fromkeys(some, amount), replaces=some)
            case "remove" if some:
                DeltaTable(self.path).delete(_among(some))
                for each in some:
                    del self.amounts[each]
            case _:
                DeltaTable(self.path).optimize.compact()

    def _write(
        self, amounts: Mapping[str, Decimal], *, replaces: list[str] | None = None, text: str = ""
    ) -> None:
        rows = [
            {
                "order_id": name,
                "amount": amount,
                "note": text,
                "paid_at": NOON + timedelta(seconds=int(name[1:])),
                "_offset": 0,
            }
            for name, amount in amounts.items()
        ]
        schema = pa.schema(
            [
                ("order_id", pa.string()),
                ("amount", pa.decimal128(12, 2)),
                ("note", pa.string()),
                ("paid_at", pa.timestamp("us", "UTC")),
                ("_offset", pa.int64()),
            ]
        )
        write_deltalake(
            self.path,
            pa.Table.from_pylist(rows, schema),
            mode="overwrite" if replaces else "append",
            predicate=_among(replaces) if replaces else None,
        )
        self.amounts |= amounts


def _among(names: list[str]) -> str:
    return f"order_id IN ({', '.join(repr(name) for name in names)})"
