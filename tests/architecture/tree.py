"""The project's own files, as the tests of its shape see them."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("infra", "quality", "jobs", "orchestration")
SOURCES = ("", "jobs", "quality", "orchestration", "infra")
"""Folders in which Python looks for the packages."""


def search_path(root: Path) -> str:
    """Return PYTHONPATH for a copy of the project, whose modules come before the installed ones."""
    return os.pathsep.join(str(root / each) for each in SOURCES)


def tracked() -> list[Path]:
    """Return every file that git keeps or would keep, without what is ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    paths = (ROOT / name for name in sorted(set(listed.stdout.split("\0"))) if name)
    return [path for path in paths if path.is_file()]


def modules() -> list[Path]:
    """Return every Python file of the project."""
    return [path for path in tracked() if path.suffix == ".py"]


def library() -> Iterator[tuple[str, str]]:
    """Yield path and text of each module that users run."""
    for path in modules():
        name = str(path.relative_to(ROOT))
        if name.startswith(PACKAGES):
            yield name, path.read_text()


def copied(folder: Path, *more: str) -> Path:
    """Return a copy of the project, to be spoilt; without its tests unless they are named."""
    for name in (*PACKAGES, *more):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, folder / name)
    return folder
