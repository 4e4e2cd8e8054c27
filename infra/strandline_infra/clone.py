"""A clone of the repository: where set-up keeps what it made, and which packages it must have."""

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from strandline_infra.extras import IMAGE
from strandline_infra.home import ROOT

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
    """Return the version of Python that an environment was made with."""
    try:
        written = re.search(
            r"^version\s*=\s*(\S+)", (venv / "pyvenv.cfg").read_text(), re.MULTILINE
        )
    except OSError:
        return None
    return written[1] if written else None
