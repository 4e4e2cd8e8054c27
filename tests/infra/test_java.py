"""Which Java is chosen, and what is written down about it. No network, no JVM."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from strandline_infra import java, setup

ROOT = Path(setup.__file__).parents[2]
PROJECT = '[project]\nname = "x"\ndependencies = ["a"]\n[tool.ruff]\nline-length = 100\n'


def a_java(folder: Path, *, version: int = 17, home: Path | None = None, refuses: str = "") -> Path:
    """Return a program that answers as a Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'for a do [ "$a" = "{refuses}" ] && exit 1; done\n'
        f'echo "    java.home = {home or folder}" >&2\n'
        f'echo "    java.specification.version = {version}" >&2\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture(name="machine")
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.setattr(java, "USUAL_FOLDERS", (str(tmp_path / "jvm"),))
    return tmp_path


def test_no_java_is_found_where_there_is_none(machine: Path) -> None:
    """Then the wheel is installed."""
    assert java.find() is None
    assert java.java_home(machine) is None


def test_java_home_comes_before_the_path_and_the_usual_folders(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JAVA_HOME was set on purpose."""
    a_java(machine / "jvm" / "a")
    assert java.find() == java.Java(home=machine / "jvm" / "a", major=17)

    a_java(machine / "path", version=21)
    assert java.find() == java.Java(home=machine / "path", major=21)

    a_java(machine / "wanted")
    monkeypatch.setenv("JAVA_HOME", str(machine / "wanted"))
    assert java.find() == java.Java(home=machine / "wanted", major=17)


def test_a_java_that_spark_does_not_run_on_is_passed_over(machine: Path) -> None:
    """The newest Java of a machine is often too new, and the oldest too old."""
    a_java(machine / "jvm" / "a", version=8)
    a_java(machine / "jvm" / "b", version=25)
    a_java(machine / "jvm" / "c", version=21)

    assert java.find() == java.Java(home=machine / "jvm" / "c", major=21)


def test_a_java_that_refuses_sparks_argument_is_passed_over(machine: Path) -> None:
    """A trimmed Java looks right and dies when Spark starts it."""
    a_java(machine / "jvm" / "trimmed", refuses=java.VECTOR_MODULE)

    assert java.find() is None


def test_a_shim_on_the_path_gives_the_home_of_the_java_behind_it(machine: Path) -> None:
    """Version managers put a script on the PATH, outside any Java's folder."""
    a_java(machine / "path", home=machine / "real")

    assert java.find() == java.Java(home=machine / "real", major=17)


def test_what_was_written_down_holds_until_it_is_gone(machine: Path) -> None:
    """Another PATH must not change the Java under a lake, a removed Java must."""
    chosen = a_java(machine / "chosen")
    a_java(machine / "path", version=21)
    java.record(machine, machine / "chosen")
    assert java.java_home(machine) == machine / "chosen"

    chosen.unlink()
    assert java.java_home(machine) == machine / "path"


def test_the_wrapper_drops_one_argument_and_keeps_every_other(tmp_path: Path) -> None:
    """Spark passes options with spaces, quotes and stars in them."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    real = folder / "java"
    real.write_text(f"#!{sys.executable}\nimport sys, json\nprint(json.dumps(sys.argv[1:]))\n")
    real.chmod(0o755)
    home = java.wrap(tmp_path, real)
    kept = ["-cp", "a b:*", "--add-modules=other", "", "it's", '"$HOME"', "-version"]

    answer = subprocess.run(
        [str(home / "bin" / "java"), kept[0], java.VECTOR_MODULE, *kept[1:]],
        capture_output=True,
        check=True,
    )

    assert json.loads(answer.stdout) == kept


def test_a_java_of_macos_lies_deeper(machine: Path) -> None:
    """Its installers make a bundle, with the home two folders below."""
    home = machine / "jvm" / "temurin-21.jdk" / "Contents" / "Home"
    a_java(home, version=21)

    assert java.find() == java.Java(home=home, major=21)
