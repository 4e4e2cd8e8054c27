"""What is installed: where set-up keeps what it made (the choice of Java, jars, archives), and the packages that not every project needs.

A clone has its ``.venv``. An installed wheel has the virtual environment that it is in, so that it goes with it; outside of
one, or in one that is not the user's to write, it has a folder in the user's cache.

Which extra of the wheel brings which packages, and what is missing without it, is known here and in no other place: the command
line turns a module that is not there into the command that installs it, ``doctor`` names what a project uses and lacks, set-up
installs it, and a test compares with ``pyproject.toml``.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PACKAGE = Path(__file__).parent
ROOT = PACKAGE.parents[1]
"""The folder of a clone; of a wheel's it is none of ours."""


def is_clone() -> bool:
    """Return whether the engine runs from a clone of its repository, and not from a wheel.

    A wheel may be in a folder that another project's ``pyproject.toml`` is in, so its name is read as well.
    """
    return _is_clone(ROOT)


@cache
def _is_clone(root: Path) -> bool:
    # Read once: to parse it takes 4 ms, and to find the tables and their versions asks some 370 times.
    try:
        text = (root / "pyproject.toml").read_text()
        return bool(tomllib.loads(text)["project"]["name"] == "strandline")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def top() -> Path:
    """Return the folder from which files of ours are named: a clone, or the site-packages of an environment."""
    return ROOT if is_clone() else PACKAGE.parent


def page(name: str) -> Path:
    """Return a file of ``infra`` that is no module, named as in a clone (``infra/docs/jdbc.md``): a wheel has it in this package."""
    return ROOT / name if is_clone() else PACKAGE / name.removeprefix("infra/")


def example() -> Path:
    """Return the folder in which the package of the example is; a wheel has it among its files, so that no program finds it by chance."""
    return ROOT / "jobs" if is_clone() else PACKAGE / "example"


def home() -> Path:
    """Return the folder of what set-up made for this Python."""
    prefix = Path(sys.prefix)
    if is_clone() or (sys.prefix != sys.base_prefix and os.access(prefix, os.W_OK)):
        return prefix
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "strandline" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def setup_command() -> str:
    """Return what a person types to have missing parts fetched."""
    return "make setup" if is_clone() else f"{RUN if is_of_uv() else ''}strandline setup"


# uv makes environments without a pip, and takes out of them what its lock has not; so what set-up adds is beside the packages.


RUN = "uv run "
"""How a program of a project that uv keeps is typed."""


def uv() -> str | None:
    """Return the program uv; it names itself to what it runs."""
    return os.environ.get("UV") or shutil.which("uv")


@cache
def is_of_uv() -> bool:
    """Return whether uv made the environment that this runs in, which has no pip then."""
    return importlib.util.find_spec("pip") is None and _of_uv(Path(sys.prefix))


def _of_uv(environment: Path) -> bool:
    try:
        written = (environment / "pyvenv.cfg").read_text()
    except OSError:
        return False
    return re.search(r"^uv\s*=", written, re.MULTILINE) is not None


def pip_of(python: Path, environment: Path) -> list[str | Path]:
    """Return how packages are installed for a Python: by the pip of its environment, or where it has none by uv.

    Raises:
        SetupError: There is neither.
    """
    running = Path(sys.executable) == python
    has_pip = (
        importlib.util.find_spec("pip") is not None
        if running
        else (environment / "bin" / "pip").is_file()
    )
    if has_pip:
        return [python, "-m", "pip", "install", *QUIET]
    program = uv()
    if program is None:
        raise SetupError(
            f"{environment} has no pip, and no uv was found.",
            hint="put uv on the path, or type `python -m ensurepip` in that environment.",
        )
    return [program, "pip", "install", "--no-progress", "--python", python]


# Compiling every module at once costs 20 s; Python compiles those that are imported.
QUIET = ("--no-input", "--disable-pip-version-check", "--no-compile", "--no-user")


def origin() -> dict[str, str | bool]:
    """Return where this engine was installed from, as ``tool.uv.sources`` names it; empty where that was a registry.

    An installer writes it down (direct_url.json): a file, a folder or a repository that it was given.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  # it imports what reads mail, which takes long

    try:
        noted = json.loads(distribution("strandline").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return {}
    return as_uv_has_it(noted)


def as_uv_has_it(noted: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return a note of where something came from in the words of uv."""
    match noted:
        case {"url": str(url), "vcs_info": {"vcs": "git", "commit_id": str(commit)}}:
            inside = {"subdirectory": noted["subdirectory"]} if "subdirectory" in noted else {}
            return {"git": url, "rev": commit, **inside}
        case {"url": str(url)} if url.startswith("file:"):
            editable = noted.get("dir_info", {}).get("editable", False)
            from urllib.request import url2pathname  # noqa: PLC0415  # as above

            path = url2pathname(urlsplit(url).path)
            return {"path": path, **({"editable": True} if editable else {})}
        case {"url": str(url), "archive_info": _}:
            return {"url": url}
        case _:
            return {}


def spark_folder(environment: Path) -> Path | None:
    """Return the folder of the jars that pyspark brings; None where it is not installed.

    Args:
        environment: The environment that set-up makes; the running Python may be another one.
    """
    found = next(iter(sorted(environment.glob("lib/python3.*/site-packages/pyspark/jars"))), None)
    if found is None and not is_clone():
        spec = importlib.util.find_spec("pyspark")
        inside = spec.submodule_search_locations if spec else None
        found = next(
            (folder for each in inside or () if (folder := Path(each) / "jars").is_dir()), None
        )
    return found


# A clone of the repository: where set-up keeps what it made, and which packages it must have.


CONSTRAINTS = "infra/constraints.txt"
TEXTS = ("license", "license-files")
"""What a wheel carries and pip installs nothing by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A clone of the repository, and the files of set-up in it.

    Args:
        root: Its folder.
        lean: Whether it has only what a lake on an object store needs, as in an image: no tools of developers, no broker of
            its own, and no archive of classes, which costs a build minutes and saves a start seconds.
        extras: The extras of an installed wheel that its project uses; a clone has all of them, an image what runs in a cluster.
    """

    root: Path = ROOT
    lean: bool = False
    extras: tuple[str, ...] = ()

    @classmethod
    def as_set_up(cls) -> "Place":
        """Return this clone as the last set-up left it."""
        return cls(lean=cls().lean_note.exists())

    @property
    def venv(self) -> Path:
        """Return the virtual environment's folder."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """Return the environment's Python."""
        return self.venv / "bin" / "python"

    @property
    def packages_note(self) -> Path:
        """Return the file with the hash of the pins for which the packages were installed."""
        return self.venv / "packages.sha256"

    @property
    def unfinished(self) -> Path:
        """Return the file that exists while the environment is being made or pip runs."""
        return self.venv / "unfinished"

    @property
    def lock(self) -> Path:
        """Return the file that one set-up at a time locks: one that always exists, so no lock file is left behind."""
        return self.root / "pyproject.toml"

    @property
    def lean_note(self) -> Path:
        """Return the file that a lean set-up leaves."""
        return self.venv / "lean"

    @property
    def pins(self) -> Path:
        """Return the file with the version of every package."""
        return self.root / CONSTRAINTS

    @property
    def requirement(self) -> str:
        """Return what pip installs."""
        return f"{self.root}[{','.join(IMAGE) if self.lean else 'dev'}]"

    def wanted_packages(self) -> str:
        """Return the hash that the note must have: of pins, Python, and the place, which is part of the scripts."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text())
        # The tools' settings are in the same file, and the licence; a change of them must not send pip to the network.
        own = {name: each for name, each in project["project"].items() if name not in TEXTS}
        # An editable install also writes down in which folders the packages are.
        places = project.get("tool", {}).get("hatch")
        asked = {"build-system": project.get("build-system"), "project": own, "hatch": places}
        pins = self.pins.read_text()
        facts = json.dumps([asked, pins, python_version(self.venv), str(self.root)])
        facts += " lean" * self.lean
        return hashlib.sha256(facts.encode()).hexdigest()


def python_version(venv: Path) -> str | None:
    """Return the version of Python that an environment was made with; uv has another word for it."""
    line = re.compile(r"^version(?:_info)?\s*=\s*(\S+)", re.MULTILINE)
    try:
        written = line.search((venv / "pyvenv.cfg").read_text())
    except OSError:
        return None
    return written[1] if written else None


# An installed wheel: pip has brought its packages; set-up brings Java, jars and archives.


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed(Place):
    """What a wheel installed, with the files of set-up."""

    @property
    def venv(self) -> Path:
        """Return the folder of what set-up makes."""
        return home()

    @property
    def python(self) -> Path:
        """Return the Python that it is installed for."""
        return Path(sys.executable)

    @property
    def lock(self) -> Path:
        """Return the file that one set-up at a time locks."""
        file = self.venv / "setup.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        return file

    @property
    def pins(self) -> Path:
        """Return the file with the version of every package."""
        return page(CONSTRAINTS)

    def wanted_packages(self) -> str:
        """Return what changes when pip installs another version."""
        from importlib.metadata import version  # noqa: PLC0415  # as above

        return f"strandline {version('strandline')}"


def here() -> Place:
    """Return where this engine is set up: in its clone, or where a wheel was installed."""
    return Place.as_set_up() if is_clone() else Installed()


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An extra.

    Args:
        modules: What Python imports of its packages; the first shows whether it is installed.
        for_what: What is not there without it.
    """

    modules: tuple[str, ...]
    for_what: str


EXTRAS = {
    "alerts": Extra(modules=("sigma",), for_what="rules in Sigma, alerts and their delivery"),
    "connect": Extra(
        modules=("grpc_status", "zstandard"), for_what="a client of Spark Connect, which reads"
    ),
    "dagster": Extra(
        modules=("dagster", "dagster_webserver", "dagster_pyspark", "sqlalchemy"),
        for_what="Dagster's pages, schedules, checks and sensors",
    ),
    "ducklake": Extra(
        modules=("duckdb_extension_ducklake",), for_what="tables in a DuckLake, where DuckDB looks"
    ),
    "iceberg": Extra(
        modules=("pyiceberg",), for_what="tables in an Iceberg catalog, where other engines look"
    ),
    "lineage": Extra(
        modules=("openlineage",), for_what="events for a catalog of lineage, by OpenLineage"
    ),
    "mcp": Extra(modules=("mcp",), for_what="tools for agents, by the Model Context Protocol"),
    "notebook": Extra(
        modules=("jupyterlab", "ipykernel", "nbclient", "nbformat"),
        for_what="notebooks over a lake",
    ),
    "otel": Extra(
        modules=("opentelemetry",),
        for_what="traces and figures for monitors, by OpenTelemetry's protocol",
    ),
    "polars": Extra(modules=("polars",), for_what="tables as frames of Polars"),
    "postgres": Extra(
        modules=("psycopg2", "dagster_postgres"),
        for_what="Dagster's history in PostgreSQL, static tables from there, rows that leave for there",
    ),
    "quality": Extra(
        modules=("great_expectations",), for_what="Data Docs, the pages of Great Expectations"
    ),
    "registry": Extra(
        modules=("fastavro", "jsonschema_rs"),
        for_what="payloads whose schemas are in a registry",
    ),
}
"""Each extra of a user by its name; ``dev`` has all of them, and the tools."""

IMAGE = (
    *("alerts", "dagster", "ducklake", "iceberg", "lineage", "mcp", "otel", "postgres", "quality"),
)
"""What an image has, in which everything runs that a cluster runs."""

BY_MODULE = {module: name for name, extra in EXTRAS.items() for module in extra.modules}


def is_installed(extra: str) -> bool:
    """Return whether the packages of an extra are there; none of them is imported."""
    return all(importlib.util.find_spec(module) is not None for module in EXTRAS[extra].modules)


def of_module(name: str) -> str | None:
    """Return the extra that brings a module; None for one of another origin."""
    return BY_MODULE.get(name.partition(".")[0])


def requirement(extras: Iterable[str]) -> str:
    """Return what pip installs."""
    return f"strandline[{','.join(sorted(extras))}]"


def command(*extras: str) -> str:
    """Return what a person types to install some extras; uv writes them into the project, because it takes out what is not there."""
    return f"{'uv add' if is_of_uv() else 'pip install'} '{requirement(extras)}'"


def hint(extra: str) -> str:
    """Return what an error says that is about a missing extra."""
    return f"install the extra: {command(extra)}."


# Runs a program quietly: its output goes to a log, and a failure shows the end of that log.
#
# Why the program inherits the lock: when set-up is killed, pip or Ivy runs on and still writes. It then
# still holds the lock as well, so the next set-up waits for it instead of working in the same folder.

TAIL = 12
MOST = 5_000_000
"""Bytes of the log; a longer one is put aside before the next program, and the one that was aside goes."""


class SetupError(Exception):
    """A step of set-up failed."""

    def __init__(self, message: str, *, hint: str, tail: str = "") -> None:
        """Keep the message, the hint and the last lines of the log apart."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.tail = tail

    def __str__(self) -> str:
        """Return the message, the end of the log, and the hint."""
        parts = (self.message, self.tail, f"hint: {self.hint}")
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """Runs the programs of set-up."""

    log: Path
    lock: int | None = None

    def __call__(self, command: Sequence[str | Path], *, doing: str, hint: str) -> None:
        """Run a program to its end.

        Raises:
            SetupError: It ended with an error, or could not be started.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if self.log.exists() and self.log.stat().st_size > MOST:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))
        with self.log.open("ab") as log:
            log.write(f"\n$ {' '.join(map(str, command))}\n".encode())
            log.flush()
            start = log.tell()
            try:
                status = subprocess.run(
                    [str(part) for part in command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=() if self.lock is None else (self.lock,),
                    check=False,
                ).returncode
            except OSError as error:
                raise SetupError(f"{doing} failed: {error}", hint=hint) from error
        if status != 0:
            raise SetupError(f"{doing} failed.", hint=hint, tail=self._tail(start))

    def _tail(self, start: int) -> str:
        written = self.log.read_bytes()[start:].decode(errors="replace")
        lines = [line.rstrip() for line in written.splitlines() if line.strip()]
        return "\n".join(f"  {line}" for line in lines[-TAIL:])
