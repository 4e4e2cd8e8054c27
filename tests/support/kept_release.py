"""Keep the vocabulary of a commit, so that what lakes have of its hashes stays known: ``python -m tests.support.kept_release COMMIT``.

It is for a change of the vocabulary after which every table has the rows that it had: modules that are merged, a kind of table
that is new. Where rows are others, certificates must lapse, and nothing is kept. The commit's own code says which versions its
tables have, beside the archive; tests/engine/runtime/test_code_files.py compares them with what is found in it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from strandline.engine.runtime.code_files import RELEASES
from tests.architecture.tree import ROOT, search_path

VERSIONS = ROOT / "tests" / "engine" / "runtime" / "releases.json"
FOLDERS = ("jobs/strandline/", "quality/strandline_quality/")
ASKED = """
import json
from strandline import catalog
try:
    from strandline.engine.runtime.code_files import code_version
except ImportError:  # a commit of November 2026 or before
    from strandline.engine.runtime.meter import code_version
print(json.dumps({each.id: code_version(each) for each in catalog.tables()}))
"""
MOMENT = (1980, 1, 1, 0, 0, 0)
"""Of every file in an archive, so that the same commit gives the same bytes."""


def main(commit: str) -> None:
    """Write the archive of a commit, and the versions of its tables."""
    short = _git("rev-parse", "--short=8", commit).strip()
    day = _git("log", "-1", "--format=%cd", "--date=format:%Y%m%d", commit).strip()
    name = f"{day}-{short}"
    with tempfile.TemporaryDirectory() as folder:
        _git("worktree", "add", "--detach", "--quiet", folder, commit)
        try:
            RELEASES.mkdir(exist_ok=True)
            _pack(Path(folder), RELEASES / f"{name}.zip")
            known = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
            known[name] = _versions(Path(folder))
            VERSIONS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        finally:
            _git("worktree", "remove", "--force", folder)


def _pack(root: Path, archive: Path) -> None:
    """Write the modules that decide rows, and those that lead to them, to an archive."""
    with ZipFile(archive, "w", ZIP_DEFLATED) as out:
        for folder in FOLDERS:
            for file in sorted((root / folder).rglob("*.py")):
                place = file.relative_to((root / folder).parent)
                if _decides(place.parts):
                    out.writestr(ZipInfo(str(place), MOMENT), file.read_bytes(), ZIP_DEFLATED)


def _decides(parts: tuple[str, ...]) -> bool:
    """Return whether a hash can be made of a module: the rooms that decide when and where are not followed."""
    package, *rest = parts
    if package == "strandline_quality":
        return len(rest) == 1
    return len(rest) == 1 or rest[0] in {"core", "alerting"}


def _versions(root: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", ASKED],
        cwd=root,
        env={**os.environ, "PYTHONPATH": search_path(root)},
        check=True,
        capture_output=True,
        text=True,
    )
    return dict(json.loads(done.stdout))


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main(sys.argv[1])
