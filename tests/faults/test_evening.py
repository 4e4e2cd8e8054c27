"""An evening of incidents: nothing is lost or doubled, all heals by itself or by what the runbook has to be typed.

The long form (`make prove`) streams all tables of the catalog, and keeps what was said in tests/evening.md.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs import catalog
from jobs.engine.kafka import local_broker
from jobs.engine.runtime.processes import family
from jobs.engine.service.background_stream import Always
from jobs.engine.storage.commit_log import commit_file
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.ledger import latest_version
from jobs.engine.storage.open_table import live_files, opened
from jobs.engine.storage.place import Place
from orchestration.resources import LakeResource
from tests.cli.inside import succeeded
from tests.cli.typed import ENVIRONMENT, PROGRAM
from tests.faults.evening import ASKED, Evening, Incident
from tests.faults.lives import SLICE, sheets

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1800)]

REPORT = Path(__file__).parents[1] / "evening.md"
HEAD = """# An evening on call

What `make prove` saw last: {tables} tables were streamed, events came once a minute, Dagster's watchdog looked
every ten seconds (in a console it does every thirty). The counts of all tables were those of the generator at the end.

| incident | after 10 s | after 60 s | after 300 s | typed | all tables level after | another table behind for at most |
|---|---|---|---|---|---:|---:|
"""
GOLD = "gold.device_signal_10m"
REBUILT = (("rebuild", GOLD), ("promote", GOLD))
DISK = "3g"
NO_ROOT = "--bounding-set=-dac_override,-dac_read_search"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a disk of its own, which can be filled; a folder where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder
    if is_mounted:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True)


@pytest.fixture
def evening(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Evening]]:
    """Return what begins an evening; nothing of it is left at the end."""
    lake = Place.of(disk / "lake")
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake))
    begun: list[Always] = []

    def begin(*tables: str) -> Evening:
        succeeded("up", "--lake", lake)
        begun.append(LakeResource().stream("on-call"))
        return Evening(lake, tmp_path, tables, begun[0])

    try:
        yield begin
    finally:
        for stream in begun:
            stream.pause("the evening is over")
        succeeded("down", "--lake", lake)


def killed(evening: Evening, *, jvm: bool) -> None:
    """Kill the stream's Python, or its JVM."""
    python, *others = family(evening.pid())
    chosen = [each for each in others if "java" in each.name()] if jvm else [python]
    for each in chosen:
        each.send_signal(signal.SIGKILL)


def suspended(evening: Evening, how: signal.Signals) -> None:
    for each in family(evening.pid()):
        each.send_signal(how)


def broker_killed(lake: Lake) -> None:
    running = local_broker.status(lake)
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)


def filled(disk: Path) -> None:
    """Take all the room there is."""
    room = shutil.disk_usage(disk).free
    with (disk / "fill").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room)


def torn(evening: Evening) -> None:
    """Tear the newest commit while the stream is dead, as a power cut does."""
    killed(evening, jvm=False)
    path = evening.lake.table(catalog.find(GOLD))
    file = commit_file(path, latest_version(path)).local
    file.write_bytes(file.read_bytes()[:100])


def without_a_file(lake: Lake) -> None:
    Place.of(live_files(opened(lake.table(catalog.find(GOLD))))[0]).remove()


def without_checkpoint_files(evening: Evening) -> None:
    """Remove the plans of all batches, and kill the stream: one that runs has them in memory."""
    killed(evening, jvm=False)
    shutil.rmtree((evening.lake.checkpoint(catalog.find(GOLD)) / "offsets").local)


def unreadable(evening: Evening) -> None:
    """Take the folder's rights away, and start the stream without root's right to pass over them."""
    evening.stream.pause("for another user")
    evening.lake.table(catalog.find(GOLD)).local.chmod(0)
    words = [PROGRAM, "resume", "--lake", str(evening.lake.root)]
    if os.geteuid() == 0:
        words = ["setpriv", NO_ROOT, *words]
    subprocess.run(words, env=ENVIRONMENT, capture_output=True, check=True, timeout=400)


def readable(lake: Lake) -> None:
    lake.table(catalog.find(GOLD)).local.chmod(0o755)


def torn_commit(evening: Evening) -> Incident:
    """Return the incident of the short form: a dead stream, and then one table that needs a person."""
    return Incident(
        name="the newest commit of a gold table is torn by a power cut",
        plant=lambda: torn(evening),
        typed=(("mend", GOLD), *REBUILT),
        table=GOLD,
    )


def others(evening: Evening, disk: Path) -> Iterator[Incident]:
    """Yield the other incidents of the long form."""
    lake = evening.lake
    yield Incident(name="the JVM is killed", plant=lambda: killed(evening, jvm=True))
    yield Incident(name="Python is killed", plant=lambda: killed(evening, jvm=False))
    yield Incident(
        name="the broker is killed", plant=lambda: broker_killed(lake), cure=lambda: None
    )
    yield Incident(
        name="the stream is suspended for 80 s",
        plant=lambda: suspended(evening, signal.SIGSTOP),
        cure=lambda: suspended(evening, signal.SIGCONT),
        cured_after=80,
        may_send=True,
    )
    if os.path.ismount(disk):
        yield Incident(
            name="the disk is full for 70 s",
            plant=lambda: filled(disk),
            cure=(disk / "fill").unlink,
            cured_after=70,
        )
    yield Incident(
        name="a Parquet file of a gold table is removed",
        plant=lambda: without_a_file(lake),
        typed=REBUILT,
        table=GOLD,
    )
    yield Incident(
        name="the plans of a gold table's checkpoint are deleted",
        plant=lambda: without_checkpoint_files(evening),
        typed=REBUILT,
        table=GOLD,
    )
    yield Incident(
        name="the folder of a gold table is unreadable for 60 s",
        plant=lambda: unreadable(evening),
        cure=lambda: readable(lake),
        cured_after=60,
        may_send=True,
        table=GOLD,
    )
    yield Incident(
        name="a gold table is rebuilt and promoted in the middle of traffic",
        plant=lambda: [succeeded(*words, "--lake", lake.root) for words in REBUILT],
        table=GOLD,
    )


@pytest.mark.prove
def test_an_evening_of_incidents(
    evening: Callable[..., Evening], disk: Path, request: pytest.FixtureRequest
) -> None:
    is_long = request.config.pluginmanager.has_plugin("proofs")
    night = evening() if is_long else evening(*SLICE)
    planted = [torn_commit(night), *(others(night, disk) if is_long else ())]

    for incident in planted:
        outcome = night.meets(incident)
        assert not incident.table or outcome.others_behind <= ASKED[1], outcome
    night.stream.pause("the evening is over")
    succeeded("run", *([] if is_long else SLICE), "--lake", night.lake.root)

    found = sheets(night.lake.root)
    for table, counts in night.truth().items():
        if table in found:
            assert {name: found[table][name] for name in counts} == counts, table
    if is_long:
        rows = "\n".join(each.row() for each in night.outcomes)
        REPORT.write_text(HEAD.format(tables=len(found)) + rows + "\n")
