"""A lake that is worth a snapshot, made without a JVM, and what a test compares of two lakes."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

from strandline.engine.accounting.table_books import close
from strandline.engine.lake.forgotten import Forgotten
from strandline.engine.lake.forgotten import keep as keep_request
from strandline.engine.lake.import_notes import notes_of
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.proof.certificate import Certificate, keep
from tests.engine.written import BRONZE, GOLD, SILVER
from tests.support.days import TABLES, morning

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
IDENTITY = (
    "_leases/x.lock",
    "_stream.json",
    "_order.json",
    "_dagster/dagster.yaml",
    "_logs/stream.log",
)
"""What belongs to a lake and to no other."""


def full(root: Path) -> Lake:
    """Make a lake with everything that a snapshot takes, and with what it must not take."""
    lake = morning(root)
    close(lake, TABLES, every=2)
    for table in (SILVER, GOLD):
        checkpoint = lake.checkpoint(table)
        (checkpoint / "metadata").put('{"id":"s"}')
        for number in range(3):
            (checkpoint / "offsets" / str(number)).put(f"v1\n{number}")
            (checkpoint / "commits" / str(number)).put(f"v1\n{number}")
        (checkpoint / "commits" / ".3.tmp").put("torn")
        schema = checkpoint / "state" / "0" / "_metadata" / "schema" / "0"
        schema.put("of the state")
        store = {"stateSchemaFilePaths": [f"file:{schema}"]}
        metadata = checkpoint / "state" / "0" / "_metadata" / "v2" / "0"
        metadata.put(f"v2\n{json.dumps({'stateStoreInfo': [store]})}")
    keep(_certificate(), SILVER, lake)
    (lake.gates / "silver.x.json").put("{}")
    (lake.rules / "1" / "rule.yml").put("title: x")
    lake.rule_changes.append("{}")
    (notes_of(BRONZE, lake) / "newest.json").put("{}")
    keep_request(lake, Forgotten(mark="forget 12ab", begun_at=NOON.isoformat()))
    for name in IDENTITY:
        (lake.root / name).put("the original's")
    return lake


def _certificate() -> Certificate:
    return Certificate(
        table=SILVER.id,
        equal=True,
        rows=13,
        splits=5,
        kills=2,
        seed=7,
        offsets={"t/0": (0, 14)},
        versions={SILVER.id: 2},
        code="c",
        at="2026-11-25T11:00:00+00:00",
        seconds=1.0,
    )


def contents(root: Path | Place) -> dict[str, str]:
    """Return the hash of each file by its path."""
    place = Place.of(root)
    return {
        file.below(place): hashlib.sha256(file.bytes() or b"").hexdigest()
        for file in sorted(place.files())
    }


def uploaded(root: Path, to: Place) -> Lake:
    """Copy a lake to a store; the paths in its checkpoints become those of there, as a stream's would be."""
    source = Place.of(root)
    for file in source.files():
        text = (file.bytes() or b"").replace(f"file:{source}".encode(), str(to).encode())
        (to / file.below(source)).put_bytes(text)
    return Lake(to)
