"""The tour runs from its first cell to its last in a session that can write nothing of the lake."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.processes import NOT_BARRED, refuse_half
from strandline.operate.demo import NAMES, TOUR
from tests.cli import typed
from tests.cli.inside import strandline, succeeded
from tests.cli.shop_lake import shop_lake
from tests.support.project import TYPED, ran

pytestmark = pytest.mark.slow

WRITES = """
import os, shutil, subprocess, sys
from pathlib import Path
from strandline.engine.runtime.processes import bar_writes
lake, own = Path(sys.argv[1]), Path(sys.argv[2])
if not bar_writes([own, Path("/dev")]):
    sys.exit(77)
table = lake / "silver" / "device_telemetry"
file = next(table.glob("*.parquet"))
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
def child():
    subprocess.run([sys.executable, "-c", f"open({str(table / 'x')!r}, 'w')"], check=True, stderr=subprocess.DEVNULL)
ways = {
    "a new file": lambda: (table / "x").write_text("x"),
    "an old file": lambda: file.open("r+b").write(b"x"),
    "cut": lambda: os.truncate(file, 0),
    "delete": file.unlink,
    "rename": lambda: file.rename(own / "moved.parquet"),
    "link": lambda: os.link(file, own / "linked.parquet"),
    "a folder": lambda: (lake / "x").mkdir(),
    "all": lambda: shutil.rmtree(table),
    "delta-rs": lambda: write_deltalake(str(table), pa.table({"x": [1]}), mode="overwrite", schema_mode="overwrite"),
    "delta-rs deletes": lambda: DeltaTable(str(table)).delete(),
    "another program": child,
}
for name, way in ways.items():
    try:
        way()
    except BaseException as refused:
        continue
    print(name, "was possible")
(own / "mine.txt").write_text("allowed")
print(len(list(table.glob("*.parquet"))), file.stat().st_size, "read" if file.read_bytes() else "")
"""

CHANGES = """
import os, sys
from pathlib import Path
from strandline.engine.runtime.processes import bar_writes
file, own = Path(sys.argv[1]), Path(sys.argv[2])
if not bar_writes([own]):
    sys.exit(77)
ways = {
    "truncate": lambda: os.truncate(file, 0),
    "open": lambda: os.close(os.open(file, os.O_RDONLY | os.O_TRUNC)),
    "write": lambda: file.write_text("x"),
    "unlink": file.unlink,
    "rename": lambda: file.rename(own / "moved"),
    "link": lambda: os.link(file, own / "linked"),
    "mkdir": lambda: (file.parent / "x").mkdir(),
    "symlink": lambda: (file.parent / "x").symlink_to(file),
    "mkfifo": lambda: os.mkfifo(file.parent / "x"),
    "chmod": lambda: file.chmod(0o600),
    "chown": lambda: os.chown(file, os.getuid(), os.getgid()),
    "utime": lambda: os.utime(file, (0, 0)),
    "setxattr": lambda: os.setxattr(file, "user.x", b"x"),
}
for name, way in ways.items():
    try:
        way()
    except OSError:
        continue
    print(name)
assert file.read_text() == "kept"
"""


def outputs(file: Path) -> str:
    """Return what the cells of a notebook show."""
    cells = json.loads(file.read_text())["cells"]
    return json.dumps([cell["outputs"] for cell in cells if cell["cell_type"] == "code"])


@pytest.mark.prove(alone="a minute")
def test_the_tour_runs_without_a_page(filled: Path, tmp_path: Path) -> None:
    """Each of its notebooks, in a kernel of its own, on a lake of five events; what it shows is kept in it."""
    folder = tmp_path / "mine"
    before = {path: path.stat().st_mtime_ns for path in filled.rglob("*") if path.is_file()}
    words = [word for name in NAMES for word in ("--run", name)]

    answer = typed.succeeded("notebook", "--folder", folder, *words, "--lake", filled)

    assert [line.split(":")[0] for line in answer.out.splitlines()] == [*NAMES]
    shown = {name: outputs(folder / f"{name}.ipynb") for name in NAMES}
    assert "silver.device_telemetry" in shown["explore"]
    assert "Exception" in shown["explore"]
    assert "late - " in shown["why"]
    assert "in the table - " in shown["why"]
    assert "alerts at version " in shown["backtest"]
    assert "silver.device_telemetry 5 = 5" in shown["quality"]
    after = {path: path.stat().st_mtime_ns for path in filled.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.whole
def test_a_cell_that_fails_is_an_error_with_its_notebook(filled: Path, tmp_path: Path) -> None:
    """It writes to the lake, which the session may not."""
    folder = tmp_path / "mine"
    folder.mkdir()
    book = json.loads((TOUR / "explore.ipynb").read_text())
    book["cells"][1]["source"] = [f"open('{filled}/silver/x', 'w')"]
    (folder / "explore.ipynb").write_text(json.dumps(book))

    answer = typed.strandline("notebook", "--folder", folder, "--run", "explore", "--lake", filled)

    if "no Landlock" in answer.err:
        pytest.skip("no Landlock here")
    assert answer.code == 4
    assert "explore.ipynb failed: PermissionError" in answer.err
    assert not (filled / "silver" / "x").exists()


def behind_the_barrier(program: str, *places: Path) -> str:
    """Run a program that closes the barrier itself, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, places)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("no Landlock here")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.whole
def test_a_session_writes_to_its_own_folder_and_nowhere_in_the_lake(
    filled: Path, tmp_path: Path
) -> None:
    """By Python, the shell, delta-rs or another program."""
    said = behind_the_barrier(WRITES, filled, tmp_path)

    assert "was possible" not in said
    assert said.strip().endswith("read")
    assert (tmp_path / "mine.txt").read_text() == "allowed"


@pytest.mark.parametrize("version", [1, 2])
def test_half_a_barrier_is_refused(version: int) -> None:
    """These let a file be emptied by its path."""
    with pytest.raises(DefinitionError, match="not from emptying them") as refused:
        refuse_half(version)

    assert "6.2" in refused.value.hint
    refuse_half(3)


def test_what_the_barrier_lets_through_is_what_the_pages_say(tmp_path: Path) -> None:
    """Each change of a file that the kernel knows: those that it lets through are named, and no other is let through."""
    own, file = tmp_path / "own", tmp_path / "lake" / "file"
    own.mkdir()
    file.parent.mkdir()
    file.write_text("kept")
    said = behind_the_barrier(CHANGES, file, own)

    passed = set(said.split())
    assert {"chmod", "utime"} <= passed <= {"chmod", "chown", "utime", "setxattr"}
    assert all(name in NOT_BARRED for name in passed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--run", "nothing"), "there is no notebook"),
        (("--folder", "{above}"), "lies in the folder of the notebooks"),
    ],
)
def test_what_cannot_be_opened_is_refused(
    words: tuple[str, ...], message: str, filled: Path, tmp_path: Path
) -> None:
    folder = () if "--folder" in words else ("--folder", tmp_path / "mine")
    typed_words = [word.format(above=filled.parent) for word in words]

    answer = (typed.strandline if "--run" in words else strandline)(
        "notebook", *typed_words, *folder, "--lake", filled
    )

    assert answer.code == 2
    assert message in answer.err


@pytest.mark.whole
def test_the_tour_is_one_of_the_tables_that_are_there(tmp_path: Path) -> None:
    """In a project of one's own, whose git has no secret of the page; it named the example's tables."""
    succeeded("init", tmp_path / "shop")
    shop, lake = tmp_path / "shop", shop_lake(tmp_path / "lake")
    words = [word for name in NAMES for word in ("--run", name)]

    ran(shop, "-c", TYPED, "notebook", *words, env={"STRANDLINE_LAKE": str(lake)})

    shown = {name: outputs(shop / "notebooks" / f"{name}.ipynb") for name in NAMES}
    assert "silver.orders, version 1" in shown["explore"]
    assert "quarantined - it is no row of silver.orders: malformed" in shown["why"]
    assert "in the table - it is in silver.orders" in shown["why"]
    assert "{'alerts now': 1, 'alerts at version 0': 0}" in shown["backtest"]
    assert "silver.orders 4 = 4" in shown["quality"]
    git = shutil.which("git")
    assert git is not None
    for words in (["init", "-q"], ["add", "-A"]):
        subprocess.run([git, *words], cwd=shop, check=True)
    tracked = subprocess.check_output([git, "ls-files", "notebooks"], cwd=shop, text=True)
    assert tracked.split() == [f"notebooks/{name}.ipynb" for name in sorted(NAMES)]


@pytest.mark.whole
def test_a_lake_without_rows_says_how_to_fill_it(tmp_path: Path) -> None:
    """No cell ends in an error of an empty frame."""
    (tmp_path / "lake").mkdir()

    answer = typed.strandline(
        *("notebook", "--folder", tmp_path / "mine", "--run", "backtest"),
        *("--lake", tmp_path / "lake"),
    )

    assert answer.code == 4
    assert "no silver table has rows yet; fill them: strandline run" in answer.err


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_shipped_without_what_it_showed(name: str) -> None:
    """An output in the repository is old the next day."""
    cells = json.loads((TOUR / f"{name}.ipynb").read_text())["cells"]

    assert cells[0]["cell_type"] == "markdown"
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)
