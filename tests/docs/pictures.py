"""Draw the two pictures of the front page from a lake: the balance sheet in a terminal, and the report in a browser.

make demo && python -m tests.docs.pictures .lake/demo
"""

import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from tests.cli.typed import succeeded
from tests.docs.pages import FOLDER
from tests.support.browser import Browser, found, opened

WIDTH = 112
"""Characters; the balance sheet is not wrapped."""

PAGE = """<!DOCTYPE html><meta charset="utf-8"><style>
body {{ margin: 0; background: {background}; color: {foreground} }}
pre {{ margin: 0; padding: 20px 24px; font: 16px/1.5 "DejaVu Sans Mono", monospace }}
{stylesheet}</style><body><pre>{code}</pre></body>"""

BEGINNING = """<!DOCTYPE html><style>body { margin: 0 } iframe { border: 0; width: 1080px; height: 700px }</style>
<iframe src="report.html" scrolling="no"></iframe>"""
"""The page is much longer than a picture of it should be."""


def draw(lake: Path, folder: Path) -> None:
    """Write ledger.png and report.png."""
    program = found()
    if program is None:
        raise SystemExit("no Chromium here (Debian: apt install chromium)")
    with (
        tempfile.TemporaryDirectory() as place,
        opened(program, Path(place) / "profile") as browser,
    ):
        sheet = Path(place) / "ledger.html"
        sheet.write_text(_terminal(succeeded("ledger", "--lake", lake).out), encoding="utf-8")
        succeeded("report", "--lake", lake, "--to", Path(place) / "report.html")
        report = Path(place) / "beginning.html"
        report.write_text(BEGINNING, encoding="utf-8")
        _picture(browser, sheet, folder / "ledger.png", width=860, height=300)
        _picture(browser, report, folder / "report.png", width=1080, height=700)


def _terminal(text: str) -> str:
    """Return a page that looks as a terminal does, with the sheet and without the list of reasons below it."""
    text = text.partition("\nquarantined by ")[0]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    console.print(f"$ strandline ledger\n{text}", markup=False, soft_wrap=True)
    return console.export_html(theme=MONOKAI, code_format=PAGE)


def _picture(browser: Browser, page: Path, file: Path, *, width: int, height: int) -> None:
    file.write_bytes(browser.look(page, width=width, height=height, dark=False, ask={}).picture)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), FOLDER)
