"""What peers need and the product has not: packages of Python, jars from Maven Central, and a few Java classes.

All of it is made in ``.cache/peers`` of the clone, from the lists beside the contestants, by the registries that pip and Ivy
are configured for; the product imports nothing of it. What cannot be had ends one peer, with its reason, and not the benchmark.
"""

import fcntl
import hashlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from strandline_infra import java
from strandline_infra.installation import Runner, SetupError
from tests.benchmarks.contestants.roster import KNOWN

CONTESTANTS = Path(__file__).with_name("contestants")
PINS = CONTESTANTS / "peers.txt"
JVM = CONTESTANTS / "jvm"
HOME = Path(__file__).parents[2] / ".cache" / "peers"
VENV = Path(sys.prefix)
PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
"""The interpreter below ours, for peers whose packages cannot be beside ours."""


def missing(name: str) -> str | None:
    """Make what a contestant needs; return why it cannot be had, or None."""
    known = KNOWN[name]
    try:
        if known.packages:
            packages(known.packages)
        if known.environment:
            environment(known.environment)
        if known.jars:
            class_path(known.jars)
    except SetupError as error:
        return " ".join(f"{error.message} {error.tail}".split())
    return None


def packages(names: Sequence[str]) -> Path:
    """Return a folder with some packages, as pinned; they are installed first where they are not there.

    Raises:
        SetupError: They cannot be installed.
    """
    pins = [line for line in PINS.read_text().splitlines() if line.partition("==")[0] in names]
    return _installed(pins, "packages", f"installing {', '.join(pins)}")


def environment(name: str) -> Path:
    """Return a folder with all that a peer in Python needs, as pinned; it is installed first where it is not there.

    Raises:
        SetupError: Something of it cannot be installed, or there is no interpreter to run it.
    """
    if not PYTHON.exists():
        raise SetupError(f"{PYTHON.name} is not there without an environment.", hint="install it.")
    lines = (CONTESTANTS / "python" / f"{name}.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    return _installed(pins, f"environment-{name}", f"installing the packages of {name}")


def _installed(pins: Sequence[str], name: str, doing: str) -> Path:
    folder = HOME / f"{name}-{_mark(*map(str.encode, pins))}"
    with _alone() as run:
        if not folder.exists():
            partial = _emptied(folder)
            words = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", partial, *pins)
            run([sys.executable, *words], doing=doing, hint="look at .cache/peers/log.")
            partial.rename(folder)
    return folder


def class_path(name: str) -> list[Path]:
    """Return the class path of a peer that runs on Java; its jars are fetched and its classes compiled first.

    Raises:
        SetupError: There is no Java with a compiler, or something cannot be fetched or compiled.
    """
    home = java.java_home(VENV)
    if home is None:
        raise SetupError("no Java 17 or 21 was found.", hint="run `make setup`.")
    listed, folder = JVM / f"{name}.xml", HOME / name
    sources = [*sorted(JVM.glob("*.java")), *sorted((JVM / name).glob("*.java"))]
    with _alone() as run:
        jars = java.whole_set(folder, listed)
        if not jars:
            java.retrieve(listed, folder, venv=VENV, java=home, run=run)
            jars = java.whole_set(folder, listed)
        marks = [each.read_bytes() for each in (listed, *sources)]
        classes = HOME / f"{name}-classes-{_mark(*marks)}"
        if not classes.exists():
            _compile(home, sources, jars, classes, run)
    return [classes, *jars]


def _compile(
    home: Path, sources: Sequence[Path], jars: Sequence[Path], target: Path, run: Runner
) -> None:
    compiler = home / "bin" / "javac"
    if not compiler.exists():
        raise SetupError("this Java has no compiler.", hint="install a JDK, not a JRE.")
    partial = _emptied(target)
    # The lists of Flink's processors and of old ways to call it are of no use to a benchmark.
    words = ("-nowarn", "-proc:none", "-encoding", "utf-8", "-d", partial)
    run(
        [compiler, *words, "-cp", ":".join(map(str, jars)), *sources],
        doing=f"compiling {target.name.partition('-')[0]}",
        hint="look at .cache/peers/log.",
    )
    partial.rename(target)


@contextmanager
def _alone() -> Iterator[Runner]:
    """Yield what runs programs, while no other benchmark of this clone makes the same."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Runner(log=HOME / "log", lock=lock.fileno())


def _emptied(folder: Path) -> Path:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    return partial


def _mark(*parts: bytes) -> str:
    return hashlib.sha256(b"\n".join(parts)).hexdigest()[:12]
