"""What servers of tests consist of, fetched from Maven Central by the Ivy that ships inside pyspark, once for a clone."""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from strandline_infra import java

VENV = Path(sys.prefix)


def program() -> Path:
    """Return the Java of the clone."""
    home = java.java_home(VENV)
    if home is None:
        raise RuntimeError("no Java: run `make setup`")
    return home / "bin" / "java"


def fetched(
    name: str, lists: Path, kind: str, then: Callable[[Path], None] = lambda _: None
) -> Path:
    """Return the folder of a server's files; they are fetched first where they are missing.

    Args:
        name: The name of the folder.
        lists: Where its ``ivy.xml`` and ``ivysettings.xml`` are.
        kind: Which artifacts are kept, such as ``jar``.
        then: What is to be done with them before anything has them.
    """
    folder = VENV / "jars" / name
    with folder.with_name(f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may want it at once
        if not folder.exists():
            partial = folder.with_name(f"{name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            _fetch(partial, lists, kind)
            then(partial)
            partial.rename(folder)
    return folder


def _fetch(folder: Path, lists: Path, kind: str) -> None:
    (ivy,) = VENV.glob("lib/python3.*/site-packages/pyspark/jars/ivy-*.jar")
    home = VENV / "ivy"
    subprocess.run(
        [
            *(program(), *java.java_options(home), f"-Divy.default.ivy.user.dir={home}"),
            *("-jar", ivy, "-settings", lists / "ivysettings.xml", "-ivy", lists / "ivy.xml"),
            *("-retrieve", f"{folder}/[artifact].[ext]", "-types", kind),
            *("-confs", "default", "-cache", folder / "cache"),
        ],
        check=True,
        capture_output=True,
        timeout=300,
    )
    shutil.rmtree(folder / "cache")
