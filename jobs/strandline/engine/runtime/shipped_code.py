"""The project's code as one file, which executors on other machines put before their own modules.

So what a task runs is what the driver has, also where an image of the executors is older. It holds compiled modules,
as Python's own ``PyZipFile`` makes them: Python keeps no compiled form of what it reads from an archive, and each worker would
compile it anew. Executors have the driver's Python, of the same minor version, or Spark refuses them.
"""

import hashlib
import importlib.util
import os
from pathlib import Path
from zipfile import PyZipFile

from strandline.engine.runtime.code_files import roots

PACKAGES = ("strandline", "strandline_quality", "strandline_infra")


def archive(folder: Path) -> Path:
    """Return the archive of the code as it is, made in a folder unless it is there.

    Its name changes with the code and its content never does, because executors that come later fetch it again.
    """
    file = folder / f"strandline-{_digest()}.zip"
    if not file.exists():
        draft = file.with_suffix(f".{os.getpid()}.partial")
        with PyZipFile(str(draft), "w") as made:
            for package in _folders():
                made.writepy(str(package))
        draft.replace(file)
    return file


def _folders() -> list[Path]:
    """Return the folders of the packages: the engine's, and the one with the tables."""
    own = [root / name for name, root in roots().items() if name not in PACKAGES]
    engine = [folder for name in PACKAGES for folder in _folder(name)]
    return [*engine, *own]


def _folder(package: str) -> list[Path]:
    """Return the folder of a package of the engine."""
    found = importlib.util.find_spec(package)
    return [Path(found.origin).parent] if found and found.origin else []


def _digest() -> str:
    digest = hashlib.sha256()
    for package in _folders():
        for module in sorted(package.rglob("*.py")):
            digest.update(
                str(module.relative_to(package.parent)).encode() + b"\0" + module.read_bytes()
            )
    return digest.hexdigest()[:16]
