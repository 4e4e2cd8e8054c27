"""Docstrings, comments and messages use the field's words; a sentence that must be solved first is a defect."""

import io
import re
import tokenize
from collections.abc import Iterator

from tests.architecture.tree import library

BANNED = re.compile(
    r"\b(?:speaks?|speaking|spoken|whoever|stands?|stood|told|tells?|somebody|nobody|anybody)\b"
    r"|\bput(?:s|ting)? (?:\w+ ){0,3}right\b"
    r"|\bsays a word\b|\b(?:last|later) words?\b|\bof which time\b|\blies behind\b",
    re.IGNORECASE,
)

NAMED = {
    ("jobs/engine/gates/gate_files.py", '"gates-stand-open"'),  # a file's name in every lake
    ("jobs/engine/service/stream_health.py", '"tell"'),  # stored in the notes of a watchdog
}
"""Words that are names of something stored, and stay."""

CALLBACK = re.compile(r"``tell``|\btell: ")
"""The name of an argument, which its docstring repeats."""


def test_no_sentence_has_a_word_that_the_field_does_not_use() -> None:
    """The list grew from what readers had to read twice."""
    found = [
        f"{file}:{line}: {match[0]}"
        for file, text in library()
        for line, words in _written(text)
        if (file, words) not in NAMED
        for match in BANNED.finditer(CALLBACK.sub("", words))
    ]

    assert not found


def _written(text: str) -> Iterator[tuple[int, str]]:
    """Yield every string and comment of a module with its line."""
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            yield token.start[0], token.string
