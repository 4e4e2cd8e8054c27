"""The pages of the project as a program reads them: their files, their commands, their links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
FOLDER = ROOT / "infra" / "docs"
RUNBOOKS = ROOT / "infra" / "runbooks"
RUNBOOK = RUNBOOKS / "README.md"
PAGES = (README, *sorted(RUNBOOKS.glob("*.md")), *sorted(FOLDER.glob("*.md")))

BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(
    r"^`(?P<path>[\w/.]+\.py)`:\n\n```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?P<path>[^)#\s]*)(?:#(?P<section>[^)\s]+))?\)")
HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
CELL = re.compile(r"^\| `(?P<name>[^`]+)`", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """A file that a page asks the reader to write."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link from a page.

    Args:
        page: Where it is, from the root of the project.
        path: Where it leads, from the folder of the page; empty for the page itself.
        section: The section there, as an anchor; empty for all of it.
    """

    page: str
    path: str
    section: str

    @property
    def target(self) -> Path:
        """Return the file or folder to which it leads."""
        page = ROOT / self.page
        return (page.parent / self.path).resolve() if self.path else page

    def __str__(self) -> str:
        """Return what a failed test is called."""
        return f"{self.page} -> {self.path}#{self.section}".rstrip("#")


def name(page: Path) -> str:
    """Return the path of a page from the root of the project."""
    return str(page.relative_to(ROOT))


def examples() -> list[Example]:
    """Return the named files of all pages, the front page first."""
    return [Example(m["path"], m["text"]) for page in PAGES for m in NAMED.finditer(_text(page))]


def links() -> list[Link]:
    """Return every link of all pages."""
    return [
        Link(name(page), match["path"], match["section"] or "")
        for page in PAGES
        for match in LINK.finditer(BLOCK.sub("", _text(page)))
    ]


def anchors(page: Path) -> set[str]:
    """Return the sections of a page, as browsers of the repository name them."""
    headings = HEADING.findall(BLOCK.sub("", _text(page)))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def shell_lines() -> list[tuple[str, str]]:
    """Return the page and the text of each line of shell."""
    return [
        (name(page), line)
        for page in PAGES
        for block in BLOCK.finditer(_text(page))
        if block["kind"] == "sh"
        for line in block["text"].splitlines()
    ]


def inline_commands() -> list[tuple[str, str]]:
    """Return the page and the text of each command within a sentence."""
    return [
        (name(page), code)
        for page in PAGES
        for code in CODE.findall(BLOCK.sub("", _text(page)))
        if code.startswith(("strandline ", "make "))
    ]


def listed(page: str) -> list[str]:
    """Return the first names of the rows of a page's tables."""
    return CELL.findall(_text(FOLDER / page))


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")
