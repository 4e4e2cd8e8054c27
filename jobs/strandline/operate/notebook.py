"""The notebooks of the tour: where they lie, what a session of them may write, and one run from its first cell to its last."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from strandline.core.errors import DataError, DefinitionError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import Settings, environment

TOUR = Path(__file__).with_name("notebooks")
NAMES = ("explore", "why", "backtest", "quality")
NBCLIENT = "from nbclient.cli import main; main()"
"""``jupyter execute``, by the Python that runs this."""
PATIENCE = 300
"""Seconds that a cell may take with ``--run``."""


def toured(folder: Path, lake: Lake) -> Path:
    """Return the folder with the tour in it.

    Raises:
        DefinitionError: The lake is below it, so it could be written.
    """
    if lake.root.is_local and Place.of(folder).holds(lake.root):
        raise DefinitionError(
            f"the lake {lake.root} lies in the folder of the notebooks, which they may write",
            hint="name another folder: --folder notebooks.",
        )
    own = folder / ".jupyter"
    (own / "tmp").mkdir(parents=True, exist_ok=True)
    # It has the page's secret, and is no part of a project, wherever the folder is.
    (own / ".gitignore").write_text("*\n", encoding="utf-8")
    for name in NAMES:
        file = folder / f"{name}.ipynb"
        if not file.exists():
            shutil.copyfile(TOUR / file.name, file)
    return folder


def environment_of(found: Settings, lake: Lake, folder: Path) -> dict[str, str]:
    """Return the variables of the kernels: the same settings, and the files of Jupyter beside the notebooks."""
    own = folder / ".jupyter"
    kept = {
        "JUPYTER_RUNTIME_DIR": own / "run",
        "JUPYTER_DATA_DIR": own / "data",
        "JUPYTER_CONFIG_DIR": own,
        "IPYTHONDIR": own / "ipython",
        "TMPDIR": own / "tmp",
    }
    same = environment(found.model_copy(update={"lake": str(lake.root)}))
    return {**same, **{name: str(path) for name, path in kept.items()}}


def writable(lake: Lake, folder: Path) -> list[Path]:
    """Return where a session may write: its folder with its temporary files, and the logs, of what was shown unmasked too."""
    logs = lake.log("unmasked").parent.make().local
    return [folder, logs, Path("/dev")]


def execute(file: Path, variables: dict[str, str]) -> float:
    """Run a notebook from its first cell to its last, and return how many seconds it took.

    Raises:
        DefinitionError: There is no such notebook.
        DataError: A cell failed.
    """
    if not file.exists():
        raise DefinitionError(
            f"there is no notebook {file}", hint=f"the tour has {', '.join(NAMES)}."
        )
    began = time.monotonic()
    words = ["-c", NBCLIENT, "--inplace", f"--timeout={PATIENCE}", str(file)]
    done = subprocess.run(  # noqa: S603  # the library's own program, without a shell
        [sys.executable, *words], env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        errors = re.findall(
            r"^(?:\x1b\[\d+m)?(\w+)(?:\x1b\[39m)?: (.+)$", done.stderr, re.MULTILINE
        )
        name, what = errors[-1] if errors else ("no error", f"exit code {done.returncode}")
        raise DataError(
            f"a cell of {file.name} failed: {name}: {what}",
            hint=f"open it: `strandline notebook --folder {file.parent}`.",
        )
    return time.monotonic() - began
