"""A verb that only reads asks of each table a few small files, and loads what it uses: three hundred tables are answered within a second.

Files are counted, because seconds are those of the machine: each that Python opens or lists below the lake, and each time that delta-rs
opens a table. What the verbs cost with three hundred tables is compared with what some imports take at the same time.
"""

import importlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import deltalake
import pytest
from rich.console import Console
from strandline import catalog

from strandline.cli import __main__ as start
from strandline.cli import screen
from strandline.core.errors import DamagedError
from strandline.core.table import Ingested
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.gate_files import Shut, Where
from strandline.engine.lake import open_table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log import commit_log, ledger, log_actions
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.roles import Role
from strandline.operate import orders
from tests.architecture.tree import search_path
from tests.benchmarks.lake_page import fill
from tests.benchmarks.reading_verbs import VERBS, typed
from tests.cli.inside import strandline
from tests.engine.written import entry, numbers, written
from tests.support.many_tables import generated

COMMITS = 3
TOPICS = 92
FILES: Mapping[str, float] = {
    "tables": 13,
    "ledger": 19,
    "cost": 13,
    "moments show": 9,
    "history": 13,
    "report": 40,
    "status": 8,
    "gate": 0.5,
    "quarantine list": 0.5,
    "migrate": 13,
    "preflight": 5,
    "drift": 3,
}
"""The most files that a verb opens or lists for each table, each asked by a program that has read nothing yet; of those that are named none
is opened by delta-rs.
"""

YARDSTICK = "import pyspark.sql.functions, pyarrow.parquet, deltalake, duckdb, typer, rich.console"
"""Imports of other makers, which no edit of ours makes faster: what they take here and now is how fast this machine is, neighbours and all."""

TIMES = 2.5
"""A verb may use so many times the CPU of these imports, which take 0.4 to 0.9 s; the dearest uses some twice as much, more or less by a
tenth from run to run.
"""

MORE: Mapping[str, float] = {"report": 5.5}
"""Of this verb more: it reads rows of quarantines and of closed days, and draws the balance and the verdicts of two weeks of each table."""

_SEEN: list[str] = []
_ROOTS: list[str] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _ROOTS and event in {"open", "os.listdir", "os.scandir"}:
        path = arguments[0]
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(_ROOTS[0]):
            _SEEN.append(os.fspath(path))


sys.addaudithook(_hear)


@contextmanager
def heard(root: Path) -> Iterator[list[str]]:
    """Hear which files below a folder are opened, and which folders are listed."""
    _SEEN.clear()
    _ROOTS.append(str(root))
    try:
        yield _SEEN
    finally:
        _ROOTS.clear()


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake in which each table of the example has some commits, and balances."""
    lake = Lake(tmp_path_factory.mktemp("wide") / "lake").open_for_writing()
    for table in catalog.tables():
        for batch in range(COMMITS):
            rows = 3 * max(1, len(table.upstream))
            counts = {"batch": batch, "read": rows, "good": rows, "written": 3, "duration_ms": 9}
            if isinstance(table, Ingested):
                places = {f"{table.topics[0].name}/0": (3 * batch, 3 * batch + 3)}
                one = entry(table, offsets=places, **counts)
            else:
                one = entry(
                    table, versions={each.id: (batch, batch) for each in table.upstream}, **counts
                )
            written(lake.table(table), numbers(3), one.encoded())
    return lake.root.local


@pytest.mark.whole(*sorted(FILES.keys() - {"tables", "ledger", "status", "gate"}))
@pytest.mark.parametrize("verb", FILES)
def test_a_verb_opens_a_few_files_of_each_table(
    wide: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question that is asked of each table twice is three hundred files more."""
    opened: list[object] = []

    class Counted(deltalake.DeltaTable):
        def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401  # handed on as they are
            opened.append(given)
            super().__init__(*given, **named)

    monkeypatch.setattr(deltalake, "DeltaTable", Counted)
    for kept in (ledger._entry_again, log_actions._id_again, log_actions._of_small_log):
        kept.cache_clear()  # a verb before it has read the same commits, and the program begins anew

    with heard(wide) as files:
        answer = strandline(*VERBS[verb], "--lake", wide)

    # No stream has written this lake, and the pre-flight says so.
    assert answer.code in ({2} if verb == "preflight" else {0, 3, 4}), answer.printed
    tables = len(catalog.tables())
    assert len(files) / tables <= FILES[verb], f"{len(files)} files of {tables} tables"
    assert len(opened) / tables <= 1 / 3, f"{len(opened)} tables are opened by delta-rs"


def test_rows_are_counted_as_delta_rs_counts_them(tmp_path: Path) -> None:
    """Of rows that came, of rows that replaced them, of a log that is torn."""
    place = Place.of(tmp_path / "table")
    for rows, mode in ((3, "append"), (4, "append"), (5, "overwrite")):
        written(place, numbers(rows), mode=mode)  # type: ignore[arg-type]  # one of two words
        by_delta = open_table.statistics(open_table.opened(place))["num_records"]
        assert open_table.live_rows(place) == sum(int(each.as_py()) for each in by_delta)
    assert open_table.live_rows(place) == 5
    assert open_table.broken_files(place) == set()
    (name,) = open_table.live_files(open_table.opened(place))
    Path(name).write_bytes(b"cut")
    assert open_table.broken_files(place) == {Path(name).name}
    commit_file(place, 2).put("torn")
    with pytest.raises(DamagedError, match="damaged"):
        open_table.live_rows(place)


def test_rows_are_counted_by_the_checksum_that_delta_writes(filled: Path) -> None:
    """One small file says them, however many commits there were, unless it is of another commit or does not fit."""
    seen = 0
    for table in catalog.tables():
        place = Lake(filled).table(table)
        found = log_actions.summed_files(place) if is_table(place) else None
        if found is not None:
            by_delta = open_table.statistics(open_table.opened(place))
            rows = {
                each: json.loads(stats["stats"])["numRecords"]
                for each, stats in found.files.items()
            }
            assert {**rows} == dict(
                zip(*(by_delta[n].to_pylist() for n in ("path", "num_records")), strict=True)
            )
            seen += 1
    assert seen == 3


@pytest.mark.parametrize("spoilt", ["numFiles", "tableSizeBytes", "txnId", "allFiles", None])
def test_a_checksum_that_does_not_fit_counts_nothing(
    filled: Path, tmp_path: Path, spoilt: str | None
) -> None:
    """The log is read then, as without one."""
    shutil.copytree(filled, tmp_path / "lake")
    place = Lake(tmp_path / "lake").table(catalog.find("silver.device_telemetry"))
    rows = open_table.live_rows(place)
    file = commit_log.sum_file(place, latest_version(place))
    if spoilt is None:
        file.put((file.text() or "")[:200])
    else:
        file.put(json.dumps({**json.loads(file.text() or ""), spoilt: 0}))

    assert log_actions.summed_files(place) is None
    assert open_table.live_rows(place) == rows


@pytest.mark.parametrize("width", [80, screen.ENDLESS])
def test_columns_are_laid_out_as_rich_lays_them_out(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in them: nothing, numbers, brackets, wide letters, lines, names of pictures, more than fits."""
    some = random.Random(7)  # noqa: S311  # for rows
    cells = [
        "abc",
        "",
        None,
        3,
        12345,
        1.5,
        True,
        "[red]x[/red]",
        "世界",
        "a\nb",
        ":x:",
        "2026-11-30T06:44:00",
        " a",
        "y" * 60,
    ]

    def printed(how: Callable[..., None], *words: Any) -> str:  # noqa: ANN401  # handed on as they are
        out = io.StringIO()
        console = Console(file=out, highlight=False, emoji=False, soft_wrap=True, width=width)
        monkeypatch.setattr(screen, "OUT", console)
        how(*words)
        return out.getvalue()

    for _ in range(150):
        count = some.randint(1, 5)
        names = some.choices(["table", "rows", "a b"], k=count)
        shown = [
            some.choices(cells[: some.choice([9, 14])], k=count) for _ in range(some.randint(0, 4))
        ]
        title = some.choice([None, "silver.x"])
        rich = printed(lambda *words: screen.OUT.print(screen.grid(*words)), title, names, shown)
        assert printed(screen.show, title, names, shown) == rich


def test_gates_of_all_tables_are_those_of_each(tmp_path: Path) -> None:
    """Its own, the nearest below, none."""
    lake, tables = Lake(tmp_path), catalog.tables()
    silver = catalog.find("silver.device_telemetry")
    found = Shut(table=silver.id, where=Where.BEFORE, stream="s", batch=1, at="noon")
    gate_files.write(found, silver, lake)

    together = gate_files.summaries(tables, lake)

    assert together == {each.id: gate_files.summary(each, lake) for each in tables}
    assert set(together.values()) == {"open", "shut", f"waits for {silver.id}"}


LOADED = """
import sys
from strandline.cli import __main__ as start
sys.argv = ["strandline", *sys.argv[1:]]
try:
    start.main()
except SystemExit:
    pass
heavy = ["pyarrow", "numpy", "duckdb", "deltalake", "confluent_kafka", "pydantic", "asyncio", "pandas"]
loaded = [name for name in heavy if name in sys.modules and type(sys.modules[name]) is not start.Later]
print(loaded, file=sys.stderr)
"""


@pytest.mark.parametrize("verb", ["tables", "gate"])
def test_an_answer_from_logs_alone_loads_no_library_of_a_tenth_of_a_second(
    wide: Path, verb: str
) -> None:
    """One import at the top of a module that all verbs need would cost each of them that."""
    asked = [sys.executable, "-c", LOADED, *VERBS[verb], "--lake", str(wide)]
    done = subprocess.run(asked, check=True, capture_output=True, text=True)

    assert done.stdout
    assert done.stderr.splitlines()[-1] == "[]", done.stderr


KEPT = """
import sys
from pathlib import Path
from strandline_infra import installation
HOME = Path(sys.argv[1])
installation.home = lambda: HOME
from strandline.engine.runtime import code_files, statements
from strandline import catalog
if HOME.exists():
    statements.parsed = None  # a module that is parsed ends the process
print([code_files.code_version(each) for each in catalog.tables()], file=sys.stderr)
from strandline.cli import __main__ as start
sys.argv = ["strandline", *sys.argv[2:]]
start.main()
"""


def test_hashes_of_code_that_a_verb_has_made_are_kept_for_the_next(
    wide: Path, tmp_path: Path
) -> None:
    """The program writes them down at its end, and no module is parsed by a verb after it."""
    words = [sys.executable, "-c", KEPT, str(tmp_path / "home"), "gate", "--lake", str(wide)]
    first, again = (subprocess.run(words, check=True, capture_output=True) for _ in range(2))

    assert len([*(tmp_path / "home").rglob("*.json")]) == 1
    assert again.stderr == first.stderr


SLOW = """
import time
time.sleep(0.2)
if LACKS := __import__("pathlib").Path(__file__).with_name("lacks").exists():
    raise ImportError("no such library")
VALUE = 7

def __getattr__(name):
    if name == "answered":
        return 8
    raise AttributeError(name)
"""


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a package that is loaded later; what its part is loaded for needs the package."""
    folder = tmp_path / "later_slow"
    folder.mkdir()
    (folder / "__init__.py").write_text(SLOW)
    (folder / "part.py").write_text(
        "from later_slow import VALUE as OF_PACKAGE\nVALUE = OF_PACKAGE + 1\n"
    )
    monkeypatch.setattr(start, "LATER", {"later_slow", "later_slow.part"})
    monkeypatch.setattr(sys, "meta_path", [start._Finder(), *sys.meta_path])
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in ("later_slow", "later_slow.part"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("slow")
def test_a_library_is_loaded_when_something_of_it_is_asked_for() -> None:
    """By one of several threads, once; the others wait for it, and none sees a half of it."""
    library = importlib.import_module("later_slow")
    assert type(library) is start.Later
    assert "VALUE" not in vars(library)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: library.VALUE, range(8)))

    assert found == [7] * 8
    assert type(library) is not start.Later
    assert library.answered == 8
    with pytest.raises(AttributeError, match="absent"):
        library.absent  # noqa: B018  # what is asked for


@pytest.mark.usefixtures("slow")
def test_of_a_part_what_it_is_a_part_of_is_loaded_before() -> None:
    """As Python does it."""
    part = importlib.import_module("later_slow.part")
    assert type(sys.modules["later_slow"]) is start.Later

    assert part.VALUE == 8


def test_a_library_that_cannot_be_loaded_says_so_each_time(slow: Path) -> None:
    """And is loaded once it can be."""
    (slow / "lacks").touch()
    library = importlib.import_module("later_slow")
    for _ in range(2):
        with pytest.raises(ImportError, match="no such library"):
            library.VALUE  # noqa: B018  # what is asked for
    (slow / "lacks").unlink()

    assert library.VALUE == 7


@pytest.mark.parametrize(
    ("typed_", "is_question"),
    [
        ("tables", True),
        ("--profile prod tables --json", True),
        ("moments --lake x", True),
        ("moments show", True),
        ("moments note", False),
        ("quarantine show silver.a", True),
        ("quarantine replay silver.a", False),
        ("migrate", True),
        ("migrate --go", False),
        ("serve users", True),
        ("serve", False),
        ("stream", False),
        ("--help", False),
        ("", False),
    ],
)
def test_what_works_loads_all_before_its_threads_begin(typed_: str, *, is_question: bool) -> None:
    """A question has one thread."""
    assert start.is_question(typed_.split()) is is_question


def test_each_verb_that_may_be_asked_so_needs_no_more_than_to_read() -> None:
    """An order is none, however it is typed."""
    for verb, own in start.ASKS.items():
        for each in own or {""}:
            need = orders.NEEDS[f"{verb} {each}".strip()]
            assert need.role in {None, Role.READ} or {*need.by} <= {"go", "undo", "open_"}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the environment in which a lake of 276 tables is asked, in a project that declares them beside the example's."""
    folder = tmp_path_factory.mktemp("many")
    copy = generated(folder / "copy", TOPICS)
    for number in range(TOPICS):
        fill(Place.of(folder / "lake"), number)
    return {
        "STRANDLINE_LAKE": str(folder / "lake"),
        "PYTHONPATH": search_path(copy),
        "PWD": str(copy),
    }


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("verb", FILES)
def test_three_hundred_tables_are_answered_within_a_second(
    many: Mapping[str, str], verb: str
) -> None:
    """In CPU of the process, by what some imports take beside it: neighbours make both slower."""
    typed(VERBS[verb], many)  # compiles the modules, and brings the history up to date
    yardsticks, used = [], []
    for _ in range(3):  # by turns, because neighbours come and go
        yardsticks.append(_cpu([sys.executable, "-c", YARDSTICK]))
        used.append(typed(VERBS[verb], many)[0])

    most = MORE.get(verb, TIMES) * min(yardsticks)
    assert min(used) <= most, f"{min(used):.2f} s, and the imports {min(yardsticks):.2f} s"


def _cpu(words: list[str]) -> float:
    with subprocess.Popen(words) as program:
        _, _, used = os.wait4(program.pid, 0)
        program.returncode = 0
    return used.ru_utime + used.ru_stime
