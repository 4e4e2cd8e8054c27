"""Compiles Scala with the compiler that pyspark ships.

It runs on a Java without a compiler of its own, such as that of a wheel, so nothing else is fetched. It takes some seconds, once: the
name of a jar changes with its source and with the versions it is compiled for.
"""

import fcntl
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from strandline_infra import installation, jars
from strandline_infra import java as javas
from strandline_infra.logged import Runner, SetupError

COMPILER = ("scala-compiler", "scala-reflect", "scala-library", "jline")
"""Jars of pyspark that the compiler consists of."""


@contextmanager
def workshop(name: str, venv: Path) -> Iterator[tuple[Path, Runner]]:
    """Yield Java and what runs programs, while no other program makes jars of the same name.

    Raises:
        SetupError: There is no Java.
    """
    program = javas.java_home(venv)
    if program is None:
        raise SetupError(
            "no Java 17 or 21 was found.", hint=f"run `{installation.setup_command()}`."
        )
    folder = venv / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several programs may be the first to need them at once
        yield program, Runner(log=venv / "setup.log", lock=lock.fileno())


def jar_of(name: str, sources: Sequence[Path], venv: Path) -> Path:
    """Return the file that sources are compiled into, whether or not it exists."""
    parts = [
        *(each.read_bytes() for each in sources),
        *(str(jar.name).encode() for jar in jars.spark_jars(venv)),
    ]
    return venv / "jars" / f"{name}-{hashlib.sha256(b' '.join(parts)).hexdigest()[:16]}.jar"


def compile_jar(  # noqa: PLR0913  # what a compiler needs
    name: str,
    sources: Sequence[Path],
    *,
    venv: Path,
    java: Path,
    run: Runner,
    sets: Sequence[str] = (),
) -> Path:
    """Compile sources against Spark and sets of jars, and remove what was compiled of older ones.

    Raises:
        SetupError: They cannot be compiled.
    """
    spark = installation.spark_folder(venv)
    if spark is None:
        raise SetupError("pyspark is not installed.", hint=f"run `{installation.setup_command()}`.")
    compiler = [jar for part in COMPILER for jar in sorted(spark.glob(f"{part}-*.jar"))]
    others = [jar for each in sets for jar in jars.jars(each, venv)]
    against = [*sorted(spark.glob("*.jar")), *jars.spark_jars(venv), *others]
    target = jar_of(name, sources, venv)
    draft = target.with_name(f"{target.stem}.partial.jar")
    run(
        [
            *(java / "bin" / "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", ":".join(map(str, compiler)), "scala.tools.nsc.Main", "-nowarn"),
            *("-classpath", ":".join(map(str, against)), "-d", draft),
            *sources,
        ],
        doing=f"compiling the {name}",
        hint=f"type `{installation.setup_command()}` again; the whole log is {venv / 'setup.log'}.",
    )
    for former in target.parent.glob(f"{name}-*.jar"):
        if former not in {draft, target}:
            former.unlink()
    return draft.rename(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A set of jars that is fetched, with one that is compiled against it.

    Args:
        fetched: The name of the set (infra/strandline_infra/jars).
        name: The name of the compiled jar.
        sources: What it is compiled from.
    """

    fetched: str
    name: str
    sources: Sequence[Path]

    def class_path(self, venv: Path | None = None) -> list[Path]:
        """Return the jars; what is missing is fetched and compiled first.

        Raises:
            SetupError: They could not be fetched or compiled.
        """
        venv = venv or installation.home()
        if found := self.complete(venv):
            return found
        with workshop(self.fetched, venv) as (program, run):
            if not jars.jars(self.fetched, venv):
                jars.fetch(self.fetched, venv=venv, java=program, run=run)
            if not jar_of(self.name, self.sources, venv).exists():
                sets = [self.fetched]
                compile_jar(self.name, self.sources, venv=venv, java=program, run=run, sets=sets)
        return self.complete(venv)

    def complete(self, venv: Path) -> list[Path]:
        """Return the jars if they are all there, else none."""
        there, compiled = jars.jars(self.fetched, venv), jar_of(self.name, self.sources, venv)
        return [*there, compiled] if there and compiled.exists() else []


# The jars of SQL's functions of ours, ``linear_…``, ``strict_json`` and ``json_kind``, and of how batches are cached: re2j, and
# what is compiled from ``infra/strandline_infra/spark``.
#
# They are one jar, because every session has all of them, and each jar is one more file that a class is searched in.
# Set-up makes them; where a clone was brought up to date without it, the first Spark that starts does.


FUNCTIONS = "strandline.LinearFunctions,strandline.StrictFunctions,strandline.KindFunctions"
"""The extensions of Spark that bring the functions."""
ROW_CACHE = "strandline.RowCache"
"""The class by which Spark keeps rows that are cached."""
STATE_STORE = "org.apache.spark.sql.execution.streaming.state.GrowingStateStoreProvider"
"""The class by which Spark keeps the state of a de-duplication; checkpoints name it."""
LINEAR_ONLY = "strandline.LinearOnly"
"""The extension that lets a session run these alone: Spark's own become them, LIKE as well."""

LINEAR = Compiled(
    fetched="linear",
    name="linear-functions",
    sources=[
        each
        for folder in ("linear", "strict", "kinds", "cache", "state")
        for each in sorted((Path(__file__).parent / "spark" / folder).glob("*.scala"))
    ],
)


# The class path that a lake on an object store needs beside Spark's own, made when the first such lake is opened.
#
# Two parts: the jars of Hadoop's file system s3a, fetched by Ivy like the others, and how Delta's log and Spark's checkpoints are
# written there, compiled from ``infra/strandline_infra/spark/*.scala``.


LOG_STORE = "strandline.ConditionalLogStore"
"""The class by which Delta writes its log."""
CHECKPOINT_FILES = "strandline.ConditionalCheckpointFiles"
"""The class by which Spark writes the files of a checkpoint."""

STORE = Compiled(
    fetched="object_store",
    name="log-store",
    sources=sorted((Path(__file__).parent / "spark").glob("*.scala")),
)


# The jar of ``strandline serve``, compiled from ``infra/strandline_infra/spark/server/*.scala`` when the first server is started.


SERVER_SOURCES = sorted((Path(__file__).parent / "spark" / "server").glob("*.scala"))
SERVER = "sql-server"
GUARD = "strandline.Guard"
"""The extension of Spark that refuses all but queries of views."""
READ_ONLY_FILES = "strandline.ReadOnlyFiles"
"""A disk that is not written."""
USERS = "strandline.Users"
"""The class by which Hive's server checks a password."""


def server_class_path(venv: Path | None = None) -> list[Path]:
    """Return the jar; it is compiled first where it is missing.

    Raises:
        SetupError: It cannot be compiled.
    """
    venv = venv or installation.home()
    with workshop(SERVER, venv) as (program, run):
        target = jar_of(SERVER, SERVER_SOURCES, venv)
        if not target.exists():
            compile_jar(SERVER, SERVER_SOURCES, venv=venv, java=program, run=run)
    return [target]
