"""A snapshot beside running streams is one moment of them, and a kill of what makes or restores it leaves nothing half done."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import find, snapshots
from strandline.engine.service.snapshot import restore, take
from tests.architecture.tree import ROOT
from tests.cli.inside import succeeded
from tests.faults.lives import SLICE, finished, life, moved, progress, sheets
from tests.support.days import TABLES
from tests.support.proofs import Times
from tests.support.snapshots import NOON, contents, full, uploaded

KILLED = """
import os, signal, sys
from strandline.engine.service.snapshot import restore
from strandline.engine.service.snapshot import take
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import find
from tests.support.days import TABLES
from tests.support.snapshots import NOON

what, lake, store, at = sys.argv[1:]

def progress(done, total):
    if done == int(at):
        os.kill(os.getpid(), signal.SIGKILL)

if what == "take":
    take(Lake(Place.of(lake)), TABLES, Place.of(store), NOON, progress=progress)
else:
    restore(find(Place.of(store)), Lake(Place.of(lake)), NOON, progress=progress)
"""


def killed(what: str, lake: Place, store: Place, at: int) -> None:
    """Take or restore in a process that is killed after so many files."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, what, str(lake), str(store), str(at)], cwd=ROOT, check=False
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("a folder", marks=pytest.mark.prove),
        pytest.param("an object store", marks=pytest.mark.prove(alone="ten seconds")),
    ],
)
def test_a_kill_at_any_file_leaves_no_snapshot_and_no_lake_that_is_half_done(
    tmp_path: Path,
    chance: random.Random,
    times: Times,
    request: pytest.FixtureRequest,
    where: str,
) -> None:
    """On a store a lake that is half restored has a mark, by which every command refuses it."""
    lake, root = full(tmp_path / "lake"), Place.of(tmp_path)
    if where == "an object store":
        root = request.getfixturevalue("bucket")
        lake = uploaded(tmp_path / "lake", root / "lake")
    store, new = root / "backup", Lake(root / "new")
    files = take(lake, TABLES, store, NOON, dry=True).manifest.files
    original = contents(lake.root)
    for _ in range(times(1, 20)):
        killed("take", lake.root, store, chance.randint(1, files))
        assert snapshots(store) == []
    take(lake, TABLES, store, NOON)
    for _ in range(times(1, 20)):
        killed("restore", new.root, store, chance.randint(1, files))
        assert new.is_restoring or not new.root.exists()
    restore(find(store), new, NOON)

    assert [each.root for each in snapshots(store)] == [store / "2026-11-25T120000Z"]
    assert {name.partition("/")[0] for name in contents(store)} == {".lock", "2026-11-25T120000Z"}
    assert [*lake.frozen.files()] == []
    here = contents(lake.root)
    assert {name: here[name] for name in original} == original
    restored = contents(new.root)
    shared = restored.keys() & {name for name in original if "/_metadata/v2/" not in name}
    assert len(shared) > files / 2
    assert all(restored[name] == original[name] for name in shared)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.prove(alone="two minutes")
def test_a_stream_of_the_restored_lake_goes_on_and_gives_the_rows_of_the_original(
    fresh: Place, address: str, tmp_path: Path, times: Times
) -> None:
    """Taken at random moments between and in batches; the original streams on meanwhile, and is compared at the end."""
    count = times(2, 10)
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)  # noqa: S311  # moments, not secrets
    print(f"seed {seed}")  # noqa: T201  # shown when the test fails
    truth, store = tmp_path / "truth.json", tmp_path / "backup"
    words = ("--events", 6_000 + 3_000 * count, "--hours", 12, "--seed", seed, "--truth", truth)
    succeeded("produce", *words, "--lake", fresh)
    sent = json.loads(truth.read_text())
    reached = progress(fresh)
    with life(fresh, "--max-offsets", 300) as process:
        reached = moved(fresh, process, reached)
        for _ in range(count):
            time.sleep(chance.uniform(0, 1.5))
            succeeded("snapshot", store, *SLICE, "--lake", fresh)
            assert process.poll() is None
        moved(fresh, process, (*progress(fresh)[:2], -2))
    finished(fresh, address, sent)

    taken = snapshots(Place.of(store))
    assert len(taken) == count
    for number, each in enumerate(taken):
        again = tmp_path / f"again-{number}"
        succeeded("restore", each.root, "--into", again)
        before = {name: sheet["batches"] for name, sheet in sheets(again).items()}
        assert 0 < before[SLICE[1]] < sheets(fresh)[SLICE[1]]["batches"]
        finished(again, address, sent)
        assert sheets(again)[SLICE[1]]["batches"] > before[SLICE[1]]
        succeeded("compare", fresh, again)
