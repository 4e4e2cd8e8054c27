"""Each file of a checkpoint is emptied, cut in half, or deleted: the stream goes on as if nothing had happened, or says what to do."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from tests.cli import inside
from tests.faults.disk import outcomes
from tests.faults.disk.operations import faults, state
from tests.support.events import readings, received
from tests.support.mistaken import EVENTS
from tests.support.modes import derive
from tests.support.morning import LATER
from tests.support.seeds import copied

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

PARTS = ("_checkpoints",)
TABLES = (silver.TABLE, gold.TABLE)
MORE = """
    batch | partition | id | device | signal | value | event_at | arrived_at
    5     | 0         | j  | d1     | t      | 8     | 13:00:00 | 13:00:01
"""


def cut(file: Path) -> None:
    text = file.read_bytes()
    file.write_bytes(text[: len(text) // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


DAMAGE: dict[str, Callable[[Path], None]] = {"empty": empty, "half": cut, "gone": Path.unlink}


def two_batches(spark: SparkSession, lake: Lake) -> None:
    received(lake, readings(EVENTS))
    derive(spark, lake, *TABLES)
    received(lake, readings(MORE))
    derive(spark, lake, *TABLES)


def before(spark: SparkSession, lake: Lake) -> None:
    """Fill a lake with two batches of each table, and a third to come."""

    def make(seed: Lake) -> None:
        copied(seed, "two batches", lambda empty_lake: two_batches(spark, empty_lake))
        received(seed, readings(LATER))

    copied(lake, "two batches and a backlog", make)


def after(spark: SparkSession, lake: Lake) -> None:
    """Fill a lake with what comes of it undisturbed."""

    def make(seed: Lake) -> None:
        before(spark, seed)
        derive(spark, seed, *TABLES)

    copied(lake, "two batches and their successor", make)


@pytest.mark.prove(alone="minutes")
def test_each_file_in_each_way(spark: SparkSession, tmp_path: Path) -> None:
    whole = Lake(tmp_path / "whole").open_for_writing()
    after(spark, whole)
    expected = state(whole)
    seed = Lake(tmp_path / "seed").open_for_writing()
    before(spark, seed)
    failed, seen = [], dict[tuple[str, str, str], list[str]]()
    files = sorted(path for path in (seed.root / "_checkpoints").local.rglob("*") if path.is_file())
    for path in files:
        if not any(part in str(path) for part in PARTS):
            continue
        for how, damage in DAMAGE.items():
            name = path.relative_to(seed.root.local)
            lake = Lake(tmp_path / "lake")
            shutil.copytree(seed.root, lake.root)
            damage(lake.root.local / name)
            found = outcome(lake, expected)
            seen.setdefault((kind_of(name), how, found.partition(":")[0]), []).append(str(name))
            if found.startswith("WRONG"):
                failed.append(f"{name} {how}: {found}")
            shutil.rmtree(lake.root)
    for (kind, how, ended), names in seen.items():
        outcomes.keep(f"checkpoint: {kind} {how}, {ended}", f"{len(names)} files", [], ended)
    assert not failed, "\n".join(failed)


def kind_of(name: Path) -> str:
    """Return which file of a checkpoint it is, without the numbers."""
    parts = [part for part in name.parts[2:] if not part.isdigit()]
    return "/".join(part.lstrip("0123456789.") or part for part in parts)


def outcome(lake: Lake, expected: dict[str, object]) -> str:
    ids = [table.id for table in TABLES]
    for words in (("status",), ("ledger",), ("tables",)):
        answer = inside.strandline(*words, "--lake", lake.root)
        if "Traceback" in answer.printed or "unforeseen" in answer.printed:
            return f"WRONG {words}: {answer.printed[-400:]}"
    answer = inside.strandline("run", *ids, "--lake", lake.root)
    said = ""
    if answer.code:
        said = answer.err.strip()[-700:]
        if answer.code not in {2, 3, 4} or "hint: " not in said:
            return f"WRONG end: {said}"
        for table in ids:
            if f"strandline rebuild {table}" in said:
                repaired = ids[ids.index(table) :]
                for verb, each in [(v, t) for t in repaired for v in ("rebuild", "promote")]:
                    done = inside.strandline(verb, each, "--lake", lake.root)
                    if done.code:
                        return f"WRONG remedy {verb}: {done.printed[-600:]}"
                inside.strandline("run", *ids, "--lake", lake.root)
                break
        else:
            return f"WRONG, no remedy that was tried: {said}"
    found = state(lake)
    differing = [n for n, value in expected.items() if found[n] != value]
    if differing or faults(lake):
        return f"WRONG {differing} {faults(lake)} {said[:300]}"
    return "goes on" if not said else f"stops, the remedy works: {said[:160]}"
