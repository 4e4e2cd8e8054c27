"""The README as a program reads it: its files, its commands, its links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(
    r"^`(?P<path>[\w/.]+\.py)`:\n\n```python\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\]\((?P<path>[^)#]+)\)")
CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True, slots=True)
class Example:
    """A file that the README tells the reader to write."""

    path: str
    text: str


def examples() -> list[Example]:
    """Return the files under whose names code stands."""
    return [Example(found["path"], found["text"]) for found in NAMED.finditer(README.read_text())]


def links() -> list[str]:
    """Return what is linked."""
    return [found["path"] for found in LINK.finditer(README.read_text())]


def typed() -> list[str]:
    """Return each line of shell."""
    blocks = BLOCK.finditer(README.read_text())
    return [line for b in blocks if b["kind"] == "sh" for line in b["text"].splitlines()]


def said() -> list[str]:
    """Return each command that stands in a sentence."""
    words = CODE.findall(BLOCK.sub("", README.read_text()))
    return [word for word in words if word.startswith(("strandline ", "make "))]
