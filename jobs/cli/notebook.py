"""``notebook``: JupyterLab over a lake that cannot be written, with a tour in four notebooks."""

import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli import place
from jobs.cli.place import LakeOption
from jobs.cli.screen import note, say
from jobs.core.errors import DataError, DefinitionError
from jobs.engine.runtime.settings import Settings, environment
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place
from jobs.engine.storage.write_barrier import NOT_BARRED, bar_writes

TOUR = Path(__file__).with_name("notebooks")
NAMES = ("explore", "why", "backtest", "quality")
NBCLIENT = "from nbclient.cli import main; main()"
"""``jupyter execute``, by the Python that runs this."""
PATIENCE = 300
"""Seconds that a cell may take with ``--run``."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("notebook")(notebook)


def notebook(
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the notebooks are kept.")
    ] = Path("notebooks"),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 8888,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Show it in a browser.")] = True,
    run: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Execute a notebook of the folder without a page, and keep what it shows in it; may be repeated.",
        ),
    ] = None,
    lake: LakeOption = None,
) -> None:
    r"""Open JupyterLab over the lake, with a tour: explore, why, backtest, quality.

    The notebooks of the tour are copied to the folder unless they are there. On Linux the operating system refuses
    whatever a notebook would write to the lake, by Python, DuckDB or Spark alike: it may write to its folder alone.
    Only this machine reaches the page. It is an extra: pip install 'strandline[notebook]'.

    \b
    strandline notebook
    strandline notebook --folder mine --port 9999 --no-open
    strandline notebook --run explore --run quality
    """
    found, where = place.existing(lake)
    _refuse_without("nbclient" if run else "jupyterlab")
    mine = _toured(folder.absolute(), where)
    variables = _environment(found, where, mine)
    barred = bar_writes(_writable(where, mine))
    if not barred:
        note(
            "this machine has no Landlock (Linux 5.13), so nothing bars a notebook from writing files"
        )
    elif not where.root.is_local:
        note("the lake is on a store: give this session keys that may only read")
    else:
        note(f"not barred: {NOT_BARRED}")
    if run:
        for name in run:
            _execute(mine / f"{name}.ipynb", variables)
        return
    words = [
        *("-m", "jupyterlab", str(mine), f"--port={port}", "--ip=127.0.0.1", "--allow-root"),
        # A terminal and a notebook elsewhere would be no tour of the lake.
        "--ServerApp.terminals_enabled=False",
        *([] if opens else ["--no-browser"]),
    ]
    os.execve(sys.executable, [sys.executable, *words], variables)  # noqa: S606  # the page takes this process over


def _refuse_without(package: str) -> None:
    if find_spec(package) is None:
        raise DefinitionError(
            f"{package} is not installed",
            hint="install the extra: pip install 'strandline[notebook]'.",
        )


def _toured(folder: Path, lake: Lake) -> Path:
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


def _environment(found: Settings, lake: Lake, folder: Path) -> dict[str, str]:
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


def _writable(lake: Lake, folder: Path) -> list[Path]:
    """Return where a session may write: its folder with its temporary files, and the logs, of what was shown unmasked too."""
    logs = lake.log("unmasked").parent.make().local
    return [folder, logs, Path("/dev")]


def _execute(file: Path, variables: dict[str, str]) -> None:
    """Run a notebook from its first cell to its last.

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
    say(f"{file.stem}: {time.monotonic() - began:.1f} s")
