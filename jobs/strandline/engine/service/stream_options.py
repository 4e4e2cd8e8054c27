"""The options with which a stream is started, as words of the command line, merged with those of the last start."""

from collections.abc import Sequence

EVERY = "--every"
MAX_OFFSETS = "--max-offsets"
AUTO = "auto"
"""The value that takes an option of the last start back: it is chosen again as if it had never been named."""


def merged(
    last: Sequence[str], asked: Sequence[str], *, everything: bool = False
) -> tuple[str, ...]:
    """Return this start's options, and those of the last start that this one does not override.

    Args:
        last: The words of the last start.
        asked: The words of this start; its tables, if it names any, replace the former ones.
        everything: Whether to start all tables, whatever the last start named.
    """
    former, options = _apart(last)
    tables, newer = _apart(asked)
    chosen = tables or (() if everything else former)
    kept = {name: value for name, value in {**options, **newer}.items() if value != AUTO}
    return (*chosen, *(word for pair in kept.items() for word in pair))


def _apart(words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return tables, and the value of each option."""
    first = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    return tuple(words[:first]), dict(zip(words[first::2], words[first + 1 :: 2], strict=True))
