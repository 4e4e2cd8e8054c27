"""Run regular expressions on hostile texts, in a process of their own that is ended when one takes too long.

The look at the tree (jobs/rules/regex/ambiguous.py) refuses exponential cost. What is left may still cost a power of
the length: ``a.*a.*a.*b`` on a thousand letters. So each expression searches texts that it nearly matches: its loops
pumped to ``LONG`` characters, and a character at the end that spoils the match. Python's engine searches by trying, as
Java's does, and is slower, so what passes here passes there. An engine cannot be interrupted from inside, hence the
process; one process tries all expressions of a folder, and a new one continues behind an expression that was too slow.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Sequence as Listed

from jobs.rules.regex.nodes import LAST, Chars, Choice, Dot, Node, Repeat, Sequence
from jobs.rules.regex.parse import Pattern, parse
from jobs.rules.regex.write import Engine, written

LONG = 2_000
PATIENCE = 1.0
START = 20.0
"""Seconds that a new process may take to answer at all; a busy machine needs some to start Python."""

SPOILERS = ("", "\x00", "!")


def too_slow(patterns: Listed[tuple[str, str]], patience: float = PATIENCE) -> set[int]:
    """Return the numbers of the expressions that took too long on some hostile text.

    Args:
        patterns: Expressions that ``parse`` accepts, with their flags.
        patience: Seconds for each.
    """
    found: set[int] = set()
    at = 0
    while at < len(patterns):
        done = _tried(patterns[at:], patience)
        at += done
        if at < len(patterns):
            found.add(at)
            at += 1
    return found


def _tried(patterns: Listed[tuple[str, str]], patience: float) -> int:
    """Try expressions in a new process; return how many were done before one was too slow."""
    order = json.dumps(list(patterns))
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        _send(process, order)
        done = -1  # the first line says that the process is there
        late = threading.Timer(START, process.kill)
        late.start()
        try:
            for _ in process.stdout or ():
                done += 1
                late.cancel()
                late = threading.Timer(patience, process.kill)
                late.start()
        finally:
            late.cancel()
    return max(done, 0)


def _send(process: "subprocess.Popen[str]", order: str) -> None:
    """Give a process its order, all of it: what is sent is read before anything is tried."""
    if process.stdin is not None:
        process.stdin.write(order + "\n")
        process.stdin.close()


def hostile(pattern: Pattern) -> list[str]:
    """Return texts that an expression nearly matches, with its loops pumped."""
    loops = len(list(_loops(pattern.tree)))
    found = ["a" * LONG, " " * LONG, "\\" * LONG, "/-" * (LONG // 2)]
    for pumped in (None, *range(min(loops, 8))):
        text = _Sampler(pumped, LONG // max(1, loops if pumped is None else 1)).text(pattern.tree)
        found += [text[: 2 * LONG] + spoiler for spoiler in SPOILERS]
        found += [text[: 2 * LONG][:-1] + "\x00"]
    return found


def _loops(node: Node) -> "list[Repeat]":
    match node:
        case Repeat(part, _, most):
            return [*([node] if most is None else []), *_loops(part)]
        case Sequence(parts) | Choice(parts):
            return [loop for part in parts for loop in _loops(part)]
        case _:
            return []


class _Sampler:
    """Makes a text that an expression matches, with one loop, or every loop, repeated often."""

    def __init__(self, pumped: int | None, length: int) -> None:
        self.pumped = pumped
        self.length = length
        self.seen = 0

    def text(self, node: Node) -> str:  # noqa: PLR0911  # a kind of node each
        """Return a text that a part of the expression matches."""
        match node:
            case Chars():
                return _member(node)
            case Dot():
                return "a"
            case Sequence(parts):
                return "".join(map(self.text, parts))
            case Choice(parts):
                return self.text(parts[0])
            case Repeat(part, least, most):
                if most is not None:
                    return self.text(part) * min(most, self.length)
                number = self.seen
                self.seen += 1
                once = self.text(part)
                is_pumped = self.pumped in {None, number}
                return once * (max(least, self.length // max(len(once), 1)) if is_pumped else least)
            case _:
                return ""


def _member(chars: Chars) -> str:
    """Return a character of a set; a letter where there is one."""
    for preferred in map(ord, "a1A x\\"):
        if any(low <= preferred <= high for low, high in chars.members):
            return chr(preferred)
    return chr(chars.members[0][0]) if chars.members else chr(LAST)


def main() -> None:
    """Search hostile texts with each expression of the order; print a line at the beginning and after each."""
    order = json.loads(sys.stdin.readline())
    _report()
    for text, flags in order:
        pattern = parse(text, flags)
        search = re.compile(written(pattern, Engine.PYTHON)).search
        for each in hostile(pattern):
            search(each)
        _report()


def _report() -> None:
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
