"""The jars of Spark's connectors and of the broker, fetched by the Ivy that ships inside pyspark.

Why not ``spark.jars.packages``: the Kafka connector's token provider is not published in the connector's version, so
that list does not resolve, and every start of Spark would resolve again. Here the lists in infra/strandline_infra/jars are resolved
once, and from then on nothing needs a network.

A set is retrieved into a folder beside its own and renamed when it is complete, with a note of its list and of
each jar's size. A set without that note, with another list's, or with a jar missing or cut short is fetched again.
"""

import hashlib
import json
import shutil
from pathlib import Path

from strandline_infra import trust
from strandline_infra.home import home, setup_command, spark_folder
from strandline_infra.logged import Runner, SetupError

LISTS = Path(__file__).parent / "jars"
NOTE = "set.json"
SETS = ("spark", "broker")


def spark_jars(venv: Path | None = None) -> list[Path]:
    """Return the jars that Spark's class path needs beside Spark; none if set-up has not fetched them."""
    return jars("spark", venv)


def broker_jars(venv: Path | None = None) -> list[Path]:
    """Return the broker's class path; none if set-up has not fetched it."""
    return jars("broker", venv)


def jars(name: str, venv: Path | None = None) -> list[Path]:
    """Return the jars of a set if it is complete, else none."""
    folder = _folder(venv or home(), name)
    try:
        note = json.loads((folder / NOTE).read_text())
        sizes = {folder / jar: size for jar, size in note["jars"].items()}
        whole = all(jar.stat().st_size == size for jar, size in sizes.items())
    except (OSError, ValueError):
        return []
    return sorted(sizes) if whole and note["list"] == _fingerprint(name) else []


def fetch(name: str, *, venv: Path, java: Path, run: Runner) -> None:
    """Fetch a set, completely or not at all.

    Raises:
        SetupError: Ivy could not resolve or fetch it.
    """
    spark = spark_folder(venv)
    ivy = next(iter(sorted(spark.glob("ivy-*.jar"))), None) if spark else None
    if ivy is None:
        raise SetupError(
            "pyspark brings no Ivy.",
            hint=f"remove the virtual environment, make it anew, and type `{setup_command()}` again.",
        )
    folder = _folder(venv, name)
    partial = folder.with_name(f"{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    ivy_home = venv / "ivy"
    run(
        [
            *(java / "bin" / "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *trust.java_options(ivy_home),
            # Ivy otherwise leaves a folder in the user's home.
            f"-Divy.default.ivy.user.dir={ivy_home}",
            *("-jar", ivy, "-settings", LISTS / "ivysettings.xml", "-ivy", LISTS / f"{name}.xml"),
            *("-retrieve", f"{partial}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"),
            *("-confs", "default", "-cache", ivy_home / "cache"),
        ],
        doing=f"fetching the jars for {name}",
        hint="jars come from Maven Central; check the connection, then run the same command again.",
    )
    sizes = {jar.name: jar.stat().st_size for jar in sorted(partial.glob("*.jar"))}
    note = {"list": _fingerprint(name), "jars": sizes}
    (partial / NOTE).write_text(json.dumps(note, indent=1))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _folder(venv: Path, name: str) -> Path:
    return venv / "jars" / name


def _fingerprint(name: str) -> str:
    return hashlib.sha256((LISTS / f"{name}.xml").read_bytes()).hexdigest()
