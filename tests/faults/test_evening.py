"""An evening of incidents: nothing is lost or doubled, all heals by itself or by what the runbook has to be typed.

The long form (`make prove`) streams all tables of the catalog, and keeps what was said in tests/evening.md.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from jobs import catalog
from jobs.engine.kafka import local_broker
from jobs.engine.runtime.processes import family
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
from tests.support.commit import commit

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1800)]

REPORT = Path(__file__).parents[1] / "evening.md"
HEAD = """# An evening on call

What `make prove` saw last: all tables were streamed, events came once a minute, Dagster's watchdog looked every ten seconds (in a
console it does every thirty). After each incident the ledger's counts of all tables were those of the generator.

| incident | after 10 s | after 60 s | after 300 s | typed | all tables level after | another table behind for at most | commit |
|---|---|---|---|---|---:|---:|---|
"""
GOLD = "gold.device_signal_10m"
REBUILT = (("rebuild", GOLD), ("promote", GOLD))
DISK = "3g"
NO_ROOT = "--bounding-set=-dac_override,-dac_read_search"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a disk of its own, which can be filled; a folder where none can be mounted."""
    folder = tmp_path_factory.mktemp("evening") / "disk"
    folder.mkdir()
    mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder
    if is_mounted:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def night(disk: Path, request: pytest.FixtureRequest) -> Iterator[Evening]:
    """Begin an evening, of all tables in the long form; nothing of it is left at the end."""
    lake = Place.of(disk / "lake")
    tables = () if request.config.pluginmanager.has_plugin("proofs") else SLICE
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRANDLINE_LAKE", str(lake))
        succeeded("up", "--lake", lake)
        stream = LakeResource().stream("on-call")
        try:
            yield Evening(lake, disk.parent, tables, stream)
        finally:
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


LONG = pytest.mark.prove(alone="an evening")
INCIDENTS: Mapping[str, Callable[[Evening], Incident]] = {
    "the newest commit of a gold table is torn by a power cut": lambda night: Incident(
        plant=lambda: torn(night), typed=(("mend", GOLD), *REBUILT), table=GOLD
    ),
    "the JVM is killed": lambda night: Incident(plant=lambda: killed(night, jvm=True)),
    "Python is killed": lambda night: Incident(plant=lambda: killed(night, jvm=False)),
    "the broker is killed": lambda night: Incident(
        plant=lambda: broker_killed(night.lake), cure=lambda: None
    ),
    "the stream is suspended for ever": lambda night: Incident(
        plant=lambda: suspended(night, signal.SIGSTOP)
    ),
    "the stream is suspended for 40 s": lambda night: Incident(
        plant=lambda: suspended(night, signal.SIGSTOP),
        cure=lambda: suspended(night, signal.SIGCONT),
        cured_after=40,
        may_send=True,
    ),
    "the disk is full for 70 s": lambda night: Incident(
        plant=lambda: filled(night.disk), cure=(night.disk / "fill").unlink, cured_after=70
    ),
    "a Parquet file of a gold table is removed": lambda night: Incident(
        plant=lambda: without_a_file(night.lake), typed=REBUILT, table=GOLD
    ),
    "the plans of a gold table's checkpoint are deleted": lambda night: Incident(
        plant=lambda: without_checkpoint_files(night), typed=REBUILT, table=GOLD
    ),
    "the folder of a gold table is unreadable for 60 s": lambda night: Incident(
        plant=lambda: unreadable(night),
        cure=lambda: readable(night.lake),
        cured_after=60,
        may_send=True,
        table=GOLD,
    ),
    "a gold table is rebuilt and promoted in the middle of traffic": lambda night: Incident(
        plant=lambda: [succeeded(*words, "--lake", night.lake.root) for words in REBUILT],
        table=GOLD,
    ),
}
SHORT = "the newest commit of a gold table is torn by a power cut"


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.prove if each == SHORT else LONG) for each in INCIDENTS],
)
def test_all_is_level_again_and_the_counts_are_those_of_the_generator(
    name: str, night: Evening, request: pytest.FixtureRequest
) -> None:
    incident = INCIDENTS[name](night)
    if "disk" in name and not os.path.ismount(night.disk):
        pytest.skip("only who may mount can have a disk of its own")

    outcome = night.meets(incident)

    found, truth = sheets(night.lake.root), night.truth()
    sent = {table: counts for table, counts in truth.items() if table in found}
    assert {t: {name: found[t][name] for name in counts} for t, counts in sent.items()} == sent
    assert not incident.table or outcome.others_behind <= ASKED[1], outcome
    if request.config.pluginmanager.has_plugin("proofs"):
        keep(name, outcome.row())


def keep(name: str, cells: str) -> None:
    """Keep how an incident went in place of what was known about it."""
    rows = REPORT.read_text().splitlines() if REPORT.exists() else []
    known = {row.split(" | ")[0].removeprefix("| "): row for row in rows if row.count(" | ") > 4}
    known[name] = f"| {name} | {cells} | {commit()} |"
    REPORT.write_text(HEAD + "\n".join(known[each] for each in INCIDENTS if each in known) + "\n")
