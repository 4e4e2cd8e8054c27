"""The options with which a stream is started, as words of the command line, and what a new wish leaves of an old one."""

from collections.abc import Sequence

EVERY = "--every"
MAX_OFFSETS = "--max-offsets"


def merged(
    last: Sequence[str], asked: Sequence[str], *, everything: bool = False
) -> tuple[str, ...]:
    """Return the options that were asked for, and of those of the last time what is not said anew.

    Args:
        last: The words of the last time.
        asked: Those of this time; its tables, if it names any, take the place of the former ones.
        everything: Whether all tables are wanted again, whatever was named the last time.
    """
    former, options = _apart(last)
    tables, newer = _apart(asked)
    chosen = tables or (() if everything else former)
    return (*chosen, *(word for pair in {**options, **newer}.items() for word in pair))


def _apart(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return tables, and the value of each option."""
    first = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    return tuple(words[:first]), dict(zip(words[first::2], words[first + 1 :: 2], strict=True))
