"""What to do when a rule fires: the section of the page that the rule names, so that no one has to search for it.

A folder of rules is not trusted, so nothing is read but pages of the project, and of each at most a bound.
"""

import re

from strandline.project import project
from strandline_infra import home

LARGEST = 256 * 1024
ADDRESS = re.compile(r"https?://\S+")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
"""Commands, whose comments look as headings do."""

HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)


def is_address(runbook: str) -> bool:
    """Return whether a runbook is a page of the web, to which a link leads."""
    return bool(ADDRESS.fullmatch(runbook))


def words(runbook: str) -> str:
    """Return the section that a runbook names, the whole page without one, or the name itself if it is no page here."""
    page, _, wanted = runbook.partition("#")
    try:
        found = project()
        root = (found.root if found else home.top()).resolve()
        file = (root / page if found else home.page(page)).resolve(strict=True)
        if file.suffix != ".md" or not file.is_relative_to(root):
            return runbook
        with file.open(encoding="utf-8") as opened:
            text = opened.read(LARGEST)
    except (OSError, ValueError):
        return runbook
    return _section(text, wanted) if wanted else text


def _section(text: str, wanted: str) -> str:
    """Return a section with its heading, found by the name that links have; the whole text if there is none."""
    begun: re.Match[str] | None = None
    bare = FENCED.sub(lambda code: " " * len(code[0]), text)
    for heading in HEADING.finditer(bare):
        if begun and len(heading[1]) <= len(begun[1]):
            return text[begun.start() : heading.start()].strip()
        if begun is None and _anchor(heading[2]) == wanted:
            begun = heading
    return text[begun.start() :].strip() if begun else text


def _anchor(heading: str) -> str:
    """Return the name under which a link finds a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
