"""The class path that a lake on an object store needs beside Spark's own, made when the first such lake is opened.

Two parts: the jars of Hadoop's file system s3a, fetched by Ivy like the others, and how Delta's log and Spark's checkpoints are
written there, compiled from ``infra/spark/*.scala``. Why Scala: pyspark ships Scala's compiler, which runs on a Java without a compiler of
its own, such as that of a wheel, so nothing else is fetched. It takes three seconds, once.
"""

import fcntl
import hashlib
from pathlib import Path

from infra import home, jars, java
from infra.logged import Runner, SetupError

SOURCES = sorted((Path(__file__).parent / "spark").glob("*.scala"))
SET = "object_store"
LOG_STORE = "strandline.ConditionalLogStore"
"""The class by which Delta writes its log."""
CHECKPOINT_FILES = "strandline.ConditionalCheckpointFiles"
"""The class by which Spark writes the files of a checkpoint."""
COMPILER = ("scala-compiler", "scala-reflect", "scala-library", "jline")
"""Jars of pyspark that the compiler consists of."""


def class_path(venv: Path | None = None) -> list[Path]:
    """Return the jars of an object store; what is missing is fetched and compiled first.

    Raises:
        SetupError: They could not be fetched or compiled.
    """
    venv = venv or home.home()
    found = complete(venv)
    if found:
        return found
    program = java.java_home(venv)
    if program is None:
        raise SetupError("no Java 17 or 21 was found.", hint=f"run `{home.setup_command()}`.")
    folder = venv / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "object_store.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several programs may open their first such lake at once
        run = Runner(log=venv / "setup.log", lock=lock.fileno())
        if not jars.jars(SET, venv):
            jars.fetch(SET, venv=venv, java=program, run=run)
        if not _log_store(venv).exists():
            _compile(venv, program, run)
    return complete(venv)


def complete(venv: Path) -> list[Path]:
    """Return the jars of an object store if they are all there, else none."""
    fetched, compiled = jars.jars(SET, venv), _log_store(venv)
    return [*fetched, compiled] if fetched and compiled.exists() else []


def _log_store(venv: Path) -> Path:
    """Return the file of the compiled log store; its name changes with its source and with the versions it is compiled for."""
    parts = [
        *(each.read_bytes() for each in SOURCES),
        *(str(jar.name).encode() for jar in jars.spark_jars(venv)),
    ]
    return venv / "jars" / f"log-store-{hashlib.sha256(b' '.join(parts)).hexdigest()[:16]}.jar"


def _compile(venv: Path, program: Path, run: Runner) -> None:
    spark = home.spark_folder(venv)
    if spark is None:
        raise SetupError("pyspark is not installed.", hint=f"run `{home.setup_command()}`.")
    compiler = [jar for name in COMPILER for jar in sorted(spark.glob(f"{name}-*.jar"))]
    against = [*sorted(spark.glob("*.jar")), *jars.spark_jars(venv), *jars.jars(SET, venv)]
    target = _log_store(venv)
    draft = target.with_name(f"{target.stem}.partial.jar")
    run(
        [
            *(program / "bin" / "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", ":".join(map(str, compiler)), "scala.tools.nsc.Main", "-nowarn"),
            *("-classpath", ":".join(map(str, against)), "-d", draft),
            *SOURCES,
        ],
        doing="compiling the log store",
        hint=f"type `{home.setup_command()}` again; the whole log is {venv / 'setup.log'}.",
    )
    for former in target.parent.glob("log-store-*.jar"):
        if former not in {draft, target}:
            former.unlink()
    draft.rename(target)
