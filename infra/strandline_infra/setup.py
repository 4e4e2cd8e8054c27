"""Makes all that the two commands need inside .venv, and makes it again where it is incomplete.

Each step sees from the disk whether it is done, so an interrupted set-up continues, a finished one costs
three file reads, and nothing is done twice.

Why an interrupted pip means a new environment: pip copies a package file by file and, run again, takes
a half-copied one for installed. Its downloads are still in its cache, so this costs seconds.
"""

import argparse
import contextlib
import fcntl
import importlib
import json
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from strandline_infra import installation, java
from strandline_infra.installation import (
    CONSTRAINTS,
    Installed,
    Place,
    Runner,
    SetupError,
    here,
    python_version,
    setup_command,
)

# The step of set-up that makes archives of Java's classes, so that later starts are faster (jobs/strandline/engine/service/class_archive.py).


def make(place: Place, run: Runner) -> None:
    """Start Spark and the broker once, so that later starts are faster (jobs/strandline/engine/service/class_archive.py); optional."""
    for stale in (place.venv / "jvm").glob("*.jsa"):
        stale.unlink()
    with contextlib.suppress(SetupError):  # the error is in the log
        run(
            [place.python, "-m", "strandline.engine.service.class_archive"],
            doing="making the archives",
            hint="the log is setup.log in the environment.",
        )
    (place.venv / "jvm").mkdir(exist_ok=True)
    (place.venv / "jvm" / "done").write_text(_archived_for(place))


def is_made(place: Place) -> bool:
    """Return whether the archive was made here, for the present packages, Java and jars."""
    note = place.venv / "jvm" / "done"
    return note.is_file() and note.read_text() == _archived_for(place)


def has_both(place: Place) -> bool:
    """Return whether the archives of an installed wheel's Java and jars are there; by their names."""
    home = java.recorded(place.venv)
    if home is None:
        return False
    spark = java.archive(home, java.spark_jars(place.venv), version("pyspark"))
    return spark.exists() and java.archive(home, java.broker_jars(place.venv)).exists()


def has_any(place: Place) -> bool:
    """Return whether a Java of this machine could make one."""
    return any(file.stat().st_size for file in (place.venv / "jvm").glob("*.jsa"))


def _archived_for(place: Place) -> str:
    # An archive names the jars by their paths, and the JVM of a copy elsewhere passes over it without a sentence: it
    # then parses 13,000 classes at each start, which took 20 s [perf counters of a start on two busy cores].
    names = " ".join(jar.name for name in java.SETS for jar in java.jars(name, place.venv))
    return f"{place.venv} {place.wanted_packages()} {java.recorded(place.venv)} {names}"


OLDEST_PYTHON = (3, 11)
RETRY = "check the connection, then run the same command again; the whole log is setup.log in the environment."


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether one part of set-up is there."""

    name: str
    ok: bool
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One part of set-up: a check that it is done, and the function that does it."""

    name: str
    is_done: Callable[[Place], bool]
    do: Callable[[Place, Runner], None]


def has_packages(place: Place) -> bool:
    """Return whether the packages of the pins are installed."""
    note = place.packages_note
    done = note.is_file() and place.python.exists() and not place.unfinished.exists()
    return done and note.read_text() == place.wanted_packages()


def has_environment(place: Place) -> bool:
    """Return whether the environment is complete, is where it was made, and is new enough."""
    if has_packages(place):
        return True
    if not place.python.exists() or place.unfinished.exists():
        return False
    version = tuple(int(part) for part in re.findall(r"\d+", python_version(place.venv) or "0")[:2])
    return version >= OLDEST_PYTHON and (_is_where_made(place, "pip") or _is_of_uv(place))


def _is_where_made(place: Place, script: str) -> bool:
    """Return whether a script names this folder: an environment that was moved has the old one in each."""
    file = place.venv / "bin" / script
    named = re.escape(str(place.venv)) + r"[/'\"\s]"
    return file.is_file() and re.search(named, file.read_text()) is not None


def _is_of_uv(place: Place) -> bool:
    """Return whether `uv sync` made it: no pip is in it, and none is needed where uv is."""
    return installation.uv() is not None and _is_where_made(place, "activate")


def make_environment(place: Place, run: Runner) -> None:
    """Make .venv from nothing."""
    shutil.rmtree(place.venv, ignore_errors=True)
    place.venv.mkdir(parents=True)
    place.unfinished.touch()
    run(
        [sys.executable, "-m", "venv", place.venv],
        doing="making .venv",
        hint="this Python lacks venv (Debian: apt install python3-venv), or the folder is read-only.",
    )
    place.unfinished.unlink()


def install_packages(place: Place, run: Runner) -> None:
    """Install the pinned packages and this project, editable."""
    place.packages_note.unlink(missing_ok=True)
    place.unfinished.touch()
    run(_pip(place, "-e", place.requirement), doing="installing packages", hint=RETRY)
    if place.lean:
        place.lean_note.touch()
    else:
        place.lean_note.unlink(missing_ok=True)
    place.unfinished.unlink()
    place.packages_note.write_text(place.wanted_packages())


def has_extras(place: Place) -> bool:
    """Return whether the packages of the extras are there that a project uses."""
    return all(map(installation.is_installed, place.extras))


def install_extras(place: Place, run: Runner) -> None:
    """Install what a project uses, within the bounds of the wheel: its environment has versions of its own, which our pins would change."""
    missing = [name for name in place.extras if not installation.is_installed(name)]
    what = installation.requirement(missing)
    run(
        [*installation.pip_of(place.python, place.venv), what],
        doing=f"installing {what}",
        hint=f"{RETRY} By hand: {installation.command(*missing)}",
    )
    importlib.invalidate_caches()


def choose_java(place: Place, run: Runner) -> None:
    """Record the machine's Java, or install and wrap the one in the wheel."""
    own = java.find()
    if own is not None:
        java.record(place.venv, own.home)
        return
    advice = "install OpenJDK 17 or 21 (Debian: apt install openjdk-17-jre-headless), then run the same command again."
    run(
        # Beside the packages: of those `uv sync` takes out what its lock has not.
        _pip(place, "--target", place.venv / "wheel", java.WHEEL),
        doing="no Java 17 or 21 here, and installing one",
        hint=advice,
    )
    program = java.wheel_java(place.venv)
    home = java.wrap(place.venv, program) if program else None
    if home is None or java.probe(home / "bin" / "java") is None:
        raise SetupError("no Java 17 or 21 here, and the wheel's does not start.", hint=advice)
    java.record(place.venv, home)


def fetch_jars(name: str) -> Step:
    """Return the step that fetches a set of jars."""

    def do(place: Place, run: Runner) -> None:
        home = java.recorded(place.venv)
        if home is None:
            raise SetupError("Java is gone.", hint=f"run `{setup_command()}` again.")
        java.fetch(name, venv=place.venv, java=home, run=run)

    return Step(name=f"{name} jars", is_done=lambda place: bool(java.jars(name, place.venv)), do=do)


def compile_log_store(place: Place, run: Runner) -> None:  # noqa: ARG001  # a step; it has a log and a lock of its own
    """Fetch what an object store needs and compile the log store; without this step the first such lake does it."""
    java.STORE.class_path(place.venv)


def compile_linear(place: Place, run: Runner) -> None:  # noqa: ARG001  # as above
    """Fetch and compile the functions with which rules search texts."""
    java.LINEAR.class_path(place.venv)


def steps_of(place: Place) -> tuple[Step, ...]:
    """Return what a clone needs, in order."""
    chosen = Step(
        name="java", is_done=lambda place: bool(java.recorded(place.venv)), do=choose_java
    )
    searches = Step(
        name="linear",
        is_done=lambda place: bool(java.LINEAR.complete(place.venv)),
        do=compile_linear,
    )
    if isinstance(place, Installed):  # its environment and packages are pip's
        archive = Step(name="archive", is_done=has_both, do=make)
        return (
            *([Step(name="extras", is_done=has_extras, do=install_extras)] if place.extras else []),
            chosen,
            *(fetch_jars(name) for name in java.SETS),
            searches,
            *(() if place.lean else (archive,)),
        )
    first = (
        Step(name="environment", is_done=has_environment, do=make_environment),
        Step(name="packages", is_done=has_packages, do=install_packages),
        chosen,
    )
    if place.lean:
        log_store = Step(
            name="object store",
            is_done=lambda place: bool(java.STORE.complete(place.venv)),
            do=compile_log_store,
        )
        return (*first, fetch_jars("spark"), searches, log_store)
    archive = Step(name="archive", is_done=is_made, do=make)
    return (*first, *(fetch_jars(name) for name in java.SETS), searches, archive)


def state(place: Place | None = None) -> list[Check]:
    """Return which steps of set-up are done, without changing anything."""
    place = place or here()
    details = {
        "environment": f"Python {python_version(place.venv) or 'none'}",
        "packages": f"pinned in {CONSTRAINTS}",
        "java": str(java.recorded(place.venv) or "none"),
        "extras": ", ".join(place.extras),
        **{f"{name} jars": f"{len(java.jars(name, place.venv))} jars" for name in java.SETS},
        "archive": "JVMs start fast" if has_any(place) else "none, so JVMs start slowly",
        "linear": f"{len(java.LINEAR.complete(place.venv))} jars",
        "object store": f"{len(java.STORE.complete(place.venv))} jars",
    }
    own = ".".join(map(str, sys.version_info[:3]))
    python = Check(name="python", ok=sys.version_info >= OLDEST_PYTHON, detail=own)
    steps = [(step.name, step.is_done(place)) for step in steps_of(place)]
    return [
        python,
        *(
            Check(
                name=name,
                ok=ok,
                detail=details[name],
                hint="" if ok else f"run `{setup_command()}`.",
            )
            for name, ok in steps
        ),
    ]


def set_up(place: Place, steps: Sequence[Step] | None = None) -> bool:
    """Do the steps that are not done; return whether there were any.

    Raises:
        SetupError: A step failed.
    """
    steps = steps_of(place) if steps is None else steps
    if all(step.is_done(place) for step in steps):
        return False
    with place.lock.open("rb") as file:
        _lock(file.fileno())
        run = Runner(log=place.venv / "setup.log", lock=file.fileno())
        for step in steps:
            if step.is_done(place):
                continue
            started = time.monotonic()
            _say(f"  {step.name:<12} ")
            step.do(place, run)
            _say(f"{time.monotonic() - started:6.1f} s\n")
    # Ivy's cache has half the size of the jars, and is of no use once they are retrieved.
    shutil.rmtree(place.venv / "ivy", ignore_errors=True)
    return True


def main() -> int:
    """Set up, or with --check print what is there."""
    parser = argparse.ArgumentParser(prog="strandline_infra.setup", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, print what is there")
    parser.add_argument("--json", action="store_true", help="with --check: as JSON")
    what = "only what a lake on an object store needs: for an image (infra/image/Dockerfile)"
    parser.add_argument("--lean", action="store_true", help=what)
    asked = parser.parse_args()
    if asked.check:
        checks = state()
        if asked.json:
            _say(json.dumps([asdict(check) for check in checks], indent=1) + "\n")
        else:
            for check in checks:
                _say(f"{'ok' if check.ok else 'NO':<3}{check.name:<12} {check.detail}\n")
        return 0 if all(check.ok for check in checks) else 1
    try:
        set_up(Place(lean=asked.lean))
        _say("set-up is complete\n")
    except SetupError as error:
        sys.stderr.write(f"\n\n{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(
            "\n\nset-up was interrupted.\n\nhint: run the same command again to continue.\n"
        )
        return 130
    return 0


def _pip(place: Place, *what: str | Path) -> list[str | Path]:
    return [*installation.pip_of(place.python, place.venv), "-c", place.pins, *what]


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        _say("  another set-up is running here; waiting for it\n")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
