r"""Find loops in which one text can be read in exponentially many ways, before an engine tries them all.

Java and Python search by trying. ``(a+)+$`` can read twenty letters in half a million ways, and a hostile command line
makes the stream try each. A loop is of that kind exactly when two different ways through it lead from one place back to
the same place over the same text (Weber and Seidl, "On the degree of ambiguity of finite automata", 1991). So the loop
becomes an automaton whose states are its characters, and pairs of states are walked: two ways that part and meet again.

What is left can still cost a power of the length, which no look at the text alone can call too much; the trial in
jobs/rules/regex/trial.py measures that.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from jobs.rules.regex.nodes import (
    LAST,
    Anchor,
    Chars,
    Choice,
    Dot,
    Node,
    Ranges,
    Repeat,
    Sequence,
    meet,
)

MOST_STATES = 120
AS_ENDLESS = 8
"""A quantifier that may repeat as often as this counts as one without end: two to the eighth is cost enough."""


@dataclass(slots=True)
class _Automaton:
    """The characters of an expression as states, and which follows which, in how many ways."""

    states: list[Ranges] = field(default_factory=list)
    follows: Counter[tuple[int, int]] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Part:
    first: tuple[int, ...]
    last: tuple[int, ...]
    is_nullable: bool


def run_away(node: Node, *, ignores_case: bool = False) -> str | None:
    """Return why an expression may cost exponential time; None if it cannot."""
    for loop in _loops(node):
        if loop.most is not None and _is_nullable(loop.part):
            return f"up to {loop.most} repetitions of something that may be empty"
        automaton = _Automaton()
        _build(Repeat(loop.part, 0, None), automaton, ignores_case=ignores_case)
        if len(automaton.states) > MOST_STATES:
            return f"a repetition of {len(automaton.states)} characters, too many to examine"
        if _parts_and_meets(automaton):
            return (
                "a repetition in which one text can be read in many ways, such as (a+)+ or (a|a)*"
            )
    return None


def _loops(node: Node) -> Iterator[Repeat]:
    """Yield each repetition that counts as endless and is in no other, and is more than one character."""
    match node:
        case Repeat(part, _, most):
            if (most is None or most >= AS_ENDLESS) and not isinstance(part, Chars | Dot):
                yield node
            else:
                yield from _loops(part)
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from _loops(part)
        case _:
            return


def _is_nullable(node: Node) -> bool:
    match node:
        case Chars() | Dot():
            return False
        case Sequence(parts):
            return all(map(_is_nullable, parts))
        case Choice(parts):
            return any(map(_is_nullable, parts))
        case Repeat(part, least, _):
            return least == 0 or _is_nullable(part)
        case _:
            return True


def _build(node: Node, automaton: _Automaton, *, ignores_case: bool) -> _Part:
    match node:
        case Chars() | Dot():
            members = ((0, LAST),) if isinstance(node, Dot) else node.members
            automaton.states.append(_both_cases(members) if ignores_case else members)
            only = (len(automaton.states) - 1,)
            return _Part(only, only, is_nullable=False)
        case Sequence(parts):
            whole = _Part((), (), is_nullable=True)
            for part in parts:
                whole = _joined(
                    whole, _build(part, automaton, ignores_case=ignores_case), automaton
                )
            return whole
        case Choice(parts):
            built = [_build(part, automaton, ignores_case=ignores_case) for part in parts]
            first = tuple(state for each in built for state in each.first)
            last = tuple(state for each in built for state in each.last)
            return _Part(first, last, is_nullable=any(each.is_nullable for each in built))
        case Repeat():
            return _repeated(node, automaton, ignores_case=ignores_case)
        case Anchor():
            return _Part((), (), is_nullable=True)


def _repeated(node: Repeat, automaton: _Automaton, *, ignores_case: bool) -> _Part:
    """Write a repetition out, each time behind the one before; the last one of an endless one follows itself."""
    is_endless = node.most is None or node.most >= AS_ENDLESS
    times = min(max(node.least, 1), AS_ENDLESS) if is_endless else node.most or 0
    is_nullable = _is_nullable(node.part)
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    for turn in range(1, times + 1):
        part = _build(node.part, automaton, ignores_case=ignores_case)
        _link(ends, part.first, automaton)
        if is_endless and turn == times:
            _link(part.last, part.first, automaton)
        first += part.first if turn == 1 or is_nullable else ()
        last += part.last if turn >= min(max(node.least, 1), times) or is_nullable else ()
        ends = ends + part.last if is_nullable else part.last
        if len(automaton.states) > MOST_STATES:
            break
    return _Part(first, last, is_nullable=node.least == 0 or is_nullable)


def _joined(left: _Part, right: _Part, automaton: _Automaton) -> _Part:
    _link(left.last, right.first, automaton)
    return _Part(
        left.first + right.first if left.is_nullable else left.first,
        left.last + right.last if right.is_nullable else right.last,
        is_nullable=left.is_nullable and right.is_nullable,
    )


def _link(ends: tuple[int, ...], starts: tuple[int, ...], automaton: _Automaton) -> None:
    for end in ends:
        for start in starts:
            automaton.follows[end, start] += 1


def _parts_and_meets(automaton: _Automaton) -> bool:
    """Return whether two ways over one text lead from a state back to it: they part, and meet again."""
    after: dict[int, list[int]] = {}
    for (state, following), ways in automaton.follows.items():
        if ways > 1 and _reaches(automaton, following, state):
            return True
        after.setdefault(state, []).append(following)
    pairs = _pairs(automaton.states, after)
    return any(
        _returns(pairs, (state, state)) for state in range(len(automaton.states)) if state in after
    )


Pair = tuple[int, int]


def _pairs(states: list[Ranges], after: dict[int, list[int]]) -> dict[Pair, list[Pair]]:
    """Return the pairs of states that one character can lead to, from each pair."""
    shares = {
        (one, other)
        for one in range(len(states))
        for other in range(len(states))
        if one == other or meet(states[one], states[other])
    }
    found: dict[Pair, list[Pair]] = {}
    for one, other in shares:
        found[one, other] = [
            (next_one, next_other)
            for next_one in after.get(one, ())
            for next_other in after.get(other, ())
            if (next_one, next_other) in shares
        ]
    return found


def _returns(pairs: dict[Pair, list[Pair]], start: Pair) -> bool:
    """Return whether a walk from a pair of equal states leaves the equal ones and comes back."""
    seen: set[tuple[Pair, bool]] = set()
    walk = [(start, False)]
    while walk:
        pair, has_parted = walk.pop()
        for following in pairs.get(pair, ()):
            step = (following, has_parted or following[0] != following[1])
            if step == (start, True):
                return True
            if step not in seen:
                seen.add(step)
                walk.append(step)
    return False


def _reaches(automaton: _Automaton, start: int, goal: int) -> bool:
    seen = {start}
    walk = [start]
    while walk:
        state = walk.pop()
        if state == goal:
            return True
        for before, following in automaton.follows:
            if before == state and following not in seen:
                seen.add(following)
                walk.append(following)
    return False


def _both_cases(ranges: Ranges) -> Ranges:
    """Return a set with the other case of its ASCII letters."""
    more = []
    for low, high in ranges:
        for bottom, top, shift in ((65, 90, 32), (97, 122, -32)):
            start, end = max(low, bottom), min(high, top)
            if start <= end:
                more.append((start + shift, end + shift))
    return (*ranges, *more)
