"""Docstrings, comments, messages, pages and names of tests use the field's words.

A sentence that must be solved first is a defect. The list grew from what readers had to read twice.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, library, modules, tracked

WORDS = "speaks?|speaking|spoken|whoever|stands?|stood|told|tells?|somebody|nobody|anybody"
BANNED = re.compile(
    rf"\b(?:{WORDS})\b"
    r"|\bput(?:s|ting)? (?:\w+ ){0,3}right\b"
    r"|\bsays a word\b|\b(?:last|later) words?\b|\bof which time\b|\blies behind\b",
    re.IGNORECASE,
)

NAMED = {
    (
        "jobs/strandline/engine/accounting/gate_files.py",
        '"gates-stand-open"',
    ),  # a file's name in every lake
}
"""Words that are names of something stored, and stay."""

THIS = Path(__file__)
"""Has the list."""

HASHED = ROOT / "infra/strandline_infra/jars"
"""Lists whose bytes, comments included, name a set of jars: another word would install all of it again."""


def test_no_sentence_has_a_word_that_the_field_does_not_use() -> None:
    """In the library and in the tests alike: a claim is read more often than the code that it is about."""
    found = [
        f"{_name(path)}:{line}: {match[0]}"
        for path in modules()
        if path != THIS
        for line, words in _written(path.read_text())
        if (_name(path), words) not in NAMED
        for match in BANNED.finditer(words)
    ]

    assert not found


def test_no_page_and_no_comment_of_a_setting_has_one() -> None:
    """The README, the pages, the help, the Makefile, the pins: every file that is no module."""
    found = [
        f"{_name(path)}:{line}: {match[0]}"
        for path in tracked()
        if path.suffix not in {".py", ".png", ".zip"} and not path.is_relative_to(HASHED)
        for line, words in enumerate(path.read_text().splitlines(), 1)
        for match in BANNED.finditer(words)
    ]

    assert not found


def test_no_name_has_one() -> None:
    """A name is read more often than a sentence, and the name of a test is its claim."""
    found = [
        f"{_name(path)}:{line}: {name}"
        for path in modules()
        if path != THIS
        for line, name in _defined(path.read_text())
        if BANNED.search(name.replace("_", " "))
    ]

    assert not found


def test_a_module_is_named_for_what_it_does() -> None:
    """``strandline rewind`` was in goback, ``history`` in past: a newcomer found neither."""
    hiding = [
        "again",
        "anew",
        "asking",
        "beside",
        "danger",
        "fork",
        "goback",
        "healing",
        "passing",
        "past",
        "strangers",
    ]
    found = {name for name, _ in library() if Path(name).stem in hiding}

    assert not found


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _written(text: str) -> Iterator[tuple[int, str]]:
    """Yield every string and comment of a module with its line; of one without such a word none, which spares the parser."""
    if not BANNED.search(text):
        return
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            yield token.start[0], token.string


def _defined(text: str) -> Iterator[tuple[int, str]]:
    """Yield every name that a module gives to a function, a class, an argument or a value, with its line; of one without such a word none."""
    if not BANNED.search(text.replace("_", " ")):
        return
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name
