"""A lake on an object store of each cloud's kind, typed by hand: the same commands, the same rows as on a disk, and no key anywhere."""

import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from strandline import catalog

from strandline.engine.kafka import broker
from strandline.engine.lake.forgotten import requests
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from strandline.engine.runtime.settings import S3A
from tests.cli.typed import start, strandline, succeeded
from tests.faults.lives import SLICE
from tests.support import lineage
from tests.support.clouds import Cloud
from tests.support.planted import holding, lines
from tests.support.proofs import Times

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

EVENTS = 1_500
PATIENCE = 180.0


@pytest.mark.prove(alone="a minute and a half")
def test_the_same_events_give_the_same_rows_on_a_disk_and_on_a_store_after_kills(
    cloud: Cloud, in_cloud: Place, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    """And neither key is in a log, an object, or the list of processes; ten kills on the way."""
    disk = Lake(Place.of(tmp_path / "disk"))
    found = broker.up(disk)
    env = {
        **cloud.environment,
        "STRANDLINE_KAFKA": found.address,
        "STRANDLINE_LEASE": "5",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "OPENLINEAGE_CONFIG": str(_into(tmp_path / "lineage.jsonl")),
    }
    try:
        _send(1, env)
        for lake in (disk.root, in_cloud):
            succeeded("run", *SLICE, "--lake", lake, env=env)
        kills = times(1, 10)
        for number in range(kills):
            _send(number + 2, env)
            _kill_within_a_stream(in_cloud, tmp_path / "stream.log", cloud, env, chance)
        for lake in (disk.root, in_cloud):
            succeeded("run", *SLICE, "--lake", lake, env=env)
        succeeded("ledger", "--lake", in_cloud, env=env)
        equal = succeeded("compare", disk.root, in_cloud, "--json", env=env).json
        pages = {
            lake: succeeded("metrics", "--once", "--lake", lake, env=env).out
            for lake in (disk.root, in_cloud)
        }
    finally:
        broker.down(disk)

    assert isinstance(equal, list)
    assert {each["table"] for each in equal} >= {*SLICE[1:]}
    assert sum(each["left_rows"] for each in equal) > EVENTS
    read = {"\n".join(_of_ledger(page)) for page in pages.values()}
    assert len(read) == 1
    assert read.pop()
    outputs = {
        each["namespace"]
        for event in lineage.read(tmp_path / "lineage.jsonl")
        for each in event["outputs"]
    }
    assert outputs == {"file", f"{'s3' if cloud.scheme == S3A else cloud.scheme}://{cloud.root}"}
    (tmp_path / "metrics").write_text("".join(pages.values()))
    where = (
        tmp_path / "state",
        tmp_path / "stream.log",
        tmp_path / "metrics",
        tmp_path / "lineage.jsonl",
    )
    assert holding(cloud.secrets, *where, in_cloud) == []


@pytest.mark.prove(alone="three minutes")
def test_repairs_and_proofs_are_the_same_on_a_store(
    cloud: Cloud, in_cloud: Place, tmp_path: Path
) -> None:
    """Verify with a kill, rebuild, promote, undo, replay, maintain, forget, restore; the ledger balances after each."""
    disk = Lake(Place.of(tmp_path / "disk"))
    env = {
        **cloud.environment,
        "STRANDLINE_KAFKA": broker.up(disk).address,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    silver = SLICE[1]
    lake = ("--lake", in_cloud)
    try:
        _send(1, env)
        succeeded("run", *SLICE, *lake, env=env)
        succeeded("verify", silver, "--kills", 1, "--splits", 2, *lake, env=env)
        for words in (
            ("rebuild", silver),
            ("promote", silver),
            ("undo", silver),
            ("run", *SLICE),
            ("quarantine", "replay", silver),
            ("maintain",),
            ("status",),
        ):
            succeeded(*words, *lake, env=env)
            succeeded("ledger", *lake, env=env)
        _forget_one(in_cloud, lake, env)
        _restore_one(in_cloud, lake, env)
    finally:
        broker.down(disk)


def _into(file: Path) -> Path:
    """Return a configuration by which OpenLineage's events are appended to a file."""
    config = file.with_suffix(".yml")
    config.write_text(f"transport: {{type: file, log_file_path: {file}, append: true}}\n")
    return config


def _of_ledger(page: str) -> list[str]:
    """Return the figures of a page that do not depend on where the lake is, nor on how its batches were cut."""
    wanted = ("strandline_ledger_", "strandline_rows_read", "strandline_quarantined")
    return [line for line in page.splitlines() if line.startswith(wanted)]


@pytest.mark.prove(alone="three minutes")
def test_the_same_events_are_certified_alike_on_a_disk_and_on_a_store(
    cloud: Cloud, in_cloud: Place, tmp_path: Path
) -> None:
    """Both lakes read the same offsets; one value that is changed in one of them is found by both ways to look."""
    disk = Lake(Place.of(tmp_path / "disk"))
    env = {
        **cloud.environment,
        "STRANDLINE_KAFKA": broker.up(disk).address,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    verify = ("verify", "--all", "--splits", 2, "--kills", 1, "--seed", 7, "--json")
    certificates = []
    try:
        _send(1, env)
        for lake in (disk.root, in_cloud):
            succeeded("run", *SLICE, "--lake", lake, env=env)
            certificates.append(succeeded(*verify, "--lake", lake, env=env).json)
        compared = succeeded("compare", disk.root, in_cloud, "--json", env=env).json
        _change_a_value(Lake(in_cloud).table(catalog.find(SLICE[1])))
        found = strandline("compare", disk.root, in_cloud, "--json", env=env)
        uncertified = strandline(*verify, "--lake", in_cloud, env=env)
    finally:
        broker.down(disk)

    here, there = (_certified(each) for each in certificates)
    assert here == there
    assert {each["table"] for each in here} == {*SLICE[1:]}
    assert all(each["equal"] and each["rows"] and each["offsets"] for each in here)
    assert all(each["equal"] for each in compared)
    assert (found.code, uncertified.code) == (4, 4)
    (differing,) = [each for each in found.json if not each["equal"]]
    figures = ("table", "only_left", "only_right", "changed")
    assert [differing[name] for name in figures] == [SLICE[1], 1, 1, 1]
    assert {each["table"] for each in _certified(uncertified.json) if not each["equal"]} == {
        SLICE[1]
    }


@pytest.mark.prove(alone="two minutes")
def test_the_demo_accounts_for_its_events_on_a_store(
    cloud: Cloud, in_cloud: Place, tmp_path: Path
) -> None:
    env = {**cloud.environment, "XDG_STATE_HOME": str(tmp_path / "state")}
    said = succeeded("demo", "--events", 300, "--lake", in_cloud, env=env)
    assert "balanced: 300 events" in said.out


def _certified(answer: Any) -> list[dict[str, Any]]:  # noqa: ANN401  # JSON
    """Return of each certificate what two lakes have in common that read the same offsets."""
    names = ("table", "equal", "rows", "offsets", "code", "differences")
    return sorted(
        ({name: each[name] for name in names} for each in answer), key=lambda each: each["table"]
    )


def _change_a_value(path: Place) -> None:
    """Change a reading, which no program does; its table has as many rows as before."""
    table = opened(path)
    one = table.to_pyarrow_table(columns=["event_id"])["event_id"][0].as_py()
    table.update(updates={"value": "value + 1"}, predicate=f"event_id = '{one}'")


def _forget_one(bucket: Place, lake: tuple[object, ...], env: Mapping[str, str]) -> None:
    """Forget the user of some row, and see that the latest versions have no row of them."""
    succeeded("run", "bronze.user_actions", "silver.user_actions", *lake, env=env)
    question = "SELECT user_id FROM silver.user_actions LIMIT 1"
    # Masked, it would mean no row.
    shown = ("--unmasked", "whom to forget", "--json")
    answer: Any = succeeded("query", question, *shown, *lake, env=env).json
    where = f"user_id = '{answer[0]['user_id']}'"
    succeeded("forget", "--where", where, "--go", *lake, env=env)
    again: Any = succeeded("forget", "--where", where, "--json", *lake, env=env).json
    assert not any(each["rows"] for each in again["found"])
    assert requests(Lake(bucket))[0].is_done
    succeeded("ledger", *lake, env=env)


def _restore_one(bucket: Place, lake: tuple[object, ...], env: Mapping[str, str]) -> None:
    """Take a snapshot, restore it beside the lake, and compare both."""
    store, new = bucket.parent / f"{bucket.name}-backup", bucket.parent / f"{bucket.name}-new"
    succeeded("snapshot", store, *SLICE, *lake, env=env)
    succeeded("restore", store, "--into", new, env=env)
    succeeded("ledger", "--lake", new, env=env)
    succeeded("compare", bucket, new, env=env)


def _send(seed: int, env: Mapping[str, str]) -> None:
    succeeded(
        "produce",
        "--make-topics",
        "--events",
        EVENTS,
        "--seed",
        seed,
        "--until",
        "2026-11-01",
        env=env,
    )


def _kill_within_a_stream(
    lake: Place, log: Path, cloud: Cloud, env: Mapping[str, str], chance: random.Random
) -> None:
    """Start a stream, and kill it with its JVM some moments after bronze has grown."""
    bronze = Lake(lake).table(catalog.find(SLICE[0]))
    before = latest_version(bronze)
    process = start("stream", *SLICE, "--every", "200ms", "--lake", lake, log=log, env=env)
    try:
        deadline = time.monotonic() + PATIENCE
        while latest_version(bronze) == before:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 3))
        words = lines(family(process.pid))
        assert words
        assert not any(secret in word for word in words for secret in cloud.secrets)
    finally:
        for one in family(process.pid):
            one.kill()
        process.wait()
