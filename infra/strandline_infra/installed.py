"""An installed wheel: pip has brought its packages; set-up brings Java, jars and archives (infra/strandline_infra/home.py says where to)."""

import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from strandline_infra.clone import CONSTRAINTS, Place
from strandline_infra.home import home, is_clone, page


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
        return f"strandline {version('strandline')}"


def here() -> Place:
    """Return where this engine is set up: in its clone, or where a wheel was installed."""
    return Place.as_set_up() if is_clone() else Installed()
