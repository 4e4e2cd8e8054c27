"""Who has uv and nothing else: a clone and a project are synced by it, and the way from nothing to a balanced row is measured.

The long ones reach the registries, with a cache of their own; Java is hidden from them, so that set-up must fetch it.
"""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strandline_infra.installation import as_uv_has_it
from strandline_infra.java import WHEEL
from tests.architecture.tree import ROOT

FILE = ROOT / "pyproject.toml"
LIST = re.compile(r"(?<=\nconstraint-dependencies = \[\n).*?(?=^\]$)", re.DOTALL | re.MULTILINE)
UV = Path(sys.executable).with_name("uv")
HIDDEN = 'mount -t tmpfs none /usr/lib/jvm && exec "$@"'
EVENTS = 10_000

anew = pytest.mark.prove(alone="minutes: everything is fetched anew")
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can hide this machine's Java")


def pins() -> list[str]:
    """Return what infra/constraints.txt has, without its comments."""
    lines = (ROOT / "infra/constraints.txt").read_text().splitlines()
    return [line for line in lines if "==" in line and not line.startswith("#")]


def test_uv_takes_the_versions_that_the_tests_know() -> None:
    """It reads a list in pyproject.toml and no file of pins, so there are two; a difference would be found by who syncs."""
    listed = tomllib.loads(FILE.read_text())["tool"]["uv"]["constraint-dependencies"]

    assert listed == pins()


def test_a_lock_of_uv_is_each_clones_own() -> None:
    """It has the addresses of a registry, which no file of the repository may have."""
    kept = ["git", "check-ignore", "--quiet", "uv.lock"]

    assert subprocess.run(kept, cwd=ROOT, check=False).returncode == 0


def test_a_hint_is_typed_by_uv_where_uv_made_the_environment(tmp_path: Path) -> None:
    """There is no pip in it, and what was installed beside the project would be gone after the next sync."""
    made = [
        str(UV),
        "venv",
        "--quiet",
        "--offline",
        "--python",
        sys.executable,
        str(tmp_path / "env"),
    ]
    subprocess.run(made, check=True, timeout=60)
    python = tmp_path / "env" / "bin" / "python"
    asked = (
        "import json, pathlib, sys; from strandline_infra import installation as i;"
        "print(json.dumps([i.command('dagster'), list(map(str, i.pip_of(pathlib.Path(sys.executable), pathlib.Path(sys.prefix))))]))"
    )
    env = {"PYTHONPATH": str(ROOT / "infra"), "PATH": os.defpath, "UV": str(UV)}
    done = subprocess.run(
        [python, "-c", asked], env=env, capture_output=True, text=True, check=True
    )

    hint, words = json.loads(done.stdout)
    assert hint == "uv add 'strandline[dagster]'"
    assert words[:3] == [str(UV), "pip", "install"]
    assert words[-2:] == ["--python", str(python)]


@pytest.mark.parametrize(
    ("noted", "named"),
    [
        ({"url": "file:///b/x-1.whl", "archive_info": {}}, {"path": "/b/x-1.whl"}),
        ({"url": "file:///a%20b/x-1.tar.gz", "archive_info": {}}, {"path": "/a b/x-1.tar.gz"}),
        ({"url": "file:///code", "dir_info": {}}, {"path": "/code"}),
        (
            {"url": "file:///code", "dir_info": {"editable": True}},
            {"path": "/code", "editable": True},
        ),
        (
            {
                "url": "file:///code",
                "vcs_info": {"vcs": "git", "commit_id": "0a"},
                "subdirectory": "x",
            },
            {"git": "file:///code", "rev": "0a", "subdirectory": "x"},
        ),
        ({"url": "ssh:code", "archive_info": {"hashes": {}}}, {"url": "ssh:code"}),
        ({}, {}),
    ],
)
def test_uv_is_given_the_place_that_an_installer_noted(
    noted: Mapping[str, object], named: Mapping[str, object]
) -> None:
    """The note has a form that all installers write (direct_url.json); from a registry there is none."""
    assert as_uv_has_it(noted) == named


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare:
    """A machine with uv, a Python, and what every Unix has.

    Args:
        folder: Where its person works; the home and the cache are new.
        seconds: How long each command took.
    """

    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def env(self) -> Mapping[str, str]:
        """Return its variables: nothing of ours, and by which certificates this machine reaches its registries."""
        (self.folder / "bin").mkdir(exist_ok=True)
        if not (self.folder / "bin" / "uv").exists():
            for name in ("uv", "uvx"):
                (self.folder / "bin" / name).symlink_to(UV.with_name(name))
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "UV_PYTHON": str(Path(sys.base_prefix) / "bin" / "python3"),
            "TZ": "UTC",
            **{name: value for name, value in os.environ.items() if name.startswith("SSL_CERT")},
        }

    def typed(self, *words: str, within: str = ".", hide: bool = True) -> str:
        """Type a command and return what it printed."""
        began = time.monotonic()
        hidden = ["unshare", "--mount", "sh", "-c", HIDDEN, "sh"] if hide else []
        done = subprocess.run(
            [*hidden, *words],
            cwd=self.folder / within,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        self.seconds[" ".join(words[:4])] = time.monotonic() - began
        return done.stdout


@pytest.fixture(name="bare")
def _bare(tmp_path: Path) -> Bare:
    (tmp_path / "home").mkdir()
    return Bare(folder=tmp_path)


@anew
@as_root
@pytest.mark.slow
@pytest.mark.kafka
def test_from_uv_alone_to_a_balanced_row(bare: Bare) -> None:
    """Nothing is installed and no Java is there; the wheel is the only file of ours."""
    bare.typed(
        str(UV), "build", "--quiet", "--wheel", "--out-dir", str(bare.folder), str(ROOT), hide=False
    )
    (wheel,) = bare.folder.glob("*.whl")
    bare.seconds.clear()

    shown = bare.typed("uvx", "--from", str(wheel), "strandline", "init", "--demo", "fleet")
    next_lines = [
        line.strip() for line in shown.partition("try next:")[2].splitlines() if line.strip()
    ]
    assert next_lines == [
        "cd fleet",
        "uv run strandline setup",
        "uv run strandline demo",
        "uv run pytest",
    ]
    for line in next_lines[1:3]:
        more = ["--events", str(EVENTS)] if line.endswith("demo") else []
        shown = bare.typed(*line.split(), *more, within="fleet")

    took = {command: round(seconds) for command, seconds in bare.seconds.items()}
    print(f"{took}: {sum(took.values()) / 60:.1f} minutes to the first balanced row")  # noqa: T201  # the figure is the proof
    assert f"balanced: {EVENTS:,} events, each in exactly one place" in shown
    environment = bare.folder / "fleet" / ".venv"
    assert (environment / "java_home").read_text().strip() == str(
        environment / "java"
    )  # the wheel's
    asked = bare.typed(
        "uv", "run", "strandline", "ledger", "--lake", ".lake/demo", "--json", within="fleet"
    )
    assert all(sheet["balanced"] for sheet in json.loads(asked))
    # A sync takes out what its lock has not, and Java is not in it.
    bare.typed("uv", "sync", within="fleet")
    bare.typed(
        "uv",
        "run",
        "strandline",
        "verify",
        "silver.device_telemetry",
        "--lake",
        ".lake/demo",
        within="fleet",
    )


@anew
@pytest.mark.slow
@pytest.mark.parametrize("source", ["sdist", "git"])
def test_a_source_is_as_good_as_a_wheel(bare: Bare, source: str) -> None:
    """`uvx --from` takes an archive or a repository; the project names it, and uv resolves it from there."""
    if source == "git":
        where, kind = f"git+file://{ROOT}", "git"
    else:
        bare.typed(
            str(UV),
            "build",
            "--quiet",
            "--sdist",
            "--out-dir",
            str(bare.folder),
            str(ROOT),
            hide=False,
        )
        (archive,) = bare.folder.glob("*.tar.gz")
        where, kind = str(archive), "path"

    bare.typed("uvx", "--from", where, "strandline", "init", "shop", hide=False)

    written = tomllib.loads((bare.folder / "shop" / "pyproject.toml").read_text())
    assert kind in written["tool"]["uv"]["sources"]["strandline"]
    bare.typed("uv", "lock", within="shop", hide=False)
    locked = tomllib.loads((bare.folder / "shop" / "uv.lock").read_text())["package"]
    assert {"strandline", "shop", "pytest", "dagster"} <= {each["name"] for each in locked}


@anew
@as_root
@pytest.mark.slow
def test_a_clone_is_synced_by_uv_and_goes_on_by_make(bare: Bare) -> None:
    """The versions are those of the pins, and `make` leaves the environment as it is."""
    bare.typed("git", "clone", "--quiet", str(ROOT), "clone")
    bare.typed("uv", "sync", "--quiet", within="clone")
    environment = bare.folder / "clone" / ".venv"
    made = (environment / "pyvenv.cfg").stat().st_ino

    listed = bare.typed("uv", "pip", "freeze", "--python", ".venv", within="clone").splitlines()
    packages = {_plain(each) for each in listed if "==" in each}
    # What pip has in every environment, and does not list.
    others = {each for each in packages if each.startswith("setuptools==")}
    assert packages - others == {_plain(each) for each in pins()} - {
        _plain(each) for each in pins() if each.startswith(WHEEL)
    }
    bare.typed("uv", "run", "make", "setup", within="clone")
    bare.typed("make", "setup", within="clone")

    assert made == (environment / "pyvenv.cfg").stat().st_ino
    assert not (environment / "bin" / "pip").exists()
    shown = bare.typed(".venv/bin/strandline", "doctor", "--json", within="clone")
    assert all(each["ok"] for each in json.loads(shown))


def _plain(pin: str) -> str:
    """Return a pin by the name that all spellings share."""
    name, _, number = pin.partition("==")
    return f"{re.sub(r'[-_.]+', '-', name).lower()}=={number}"


if __name__ == "__main__":
    text = LIST.sub("".join(f'  "{pin}",\n' for pin in pins()), FILE.read_text())
    FILE.write_text(text)
