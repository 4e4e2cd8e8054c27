r"""What an event must have for a rule to fire at all: a few file names or numbers of one column.

``Image|endswith: '\certutil.exe'`` can hold only where the last part of the path is ``certutil.exe``. A hash set of
such names answers for many rules at once (jobs/strandline/alerting/rules/one_plan.py). A key is necessary, never sufficient: where it fits,
the whole condition is still evaluated.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from strandline.alerting.rules.condition import AllOf, AnyOf, Condition, Number, Order, Text, Wild
from strandline.alerting.source import AlertSource

MOST = 64
"""The values of a key at most; a rule with more is asked of each event."""

SEPARATORS = re.compile(r"[\\/]")

Keys: TypeAlias = Mapping[str, frozenset[str | int]]
"""For a column, the values of which it must have one."""


@dataclass(frozen=True, slots=True)
class Key:
    """The values of which a column must have one: file names in lower case, or numbers."""

    column: str
    values: frozenset[str | int]


def key(condition: Condition, source: AlertSource) -> Key | None:
    """Return the key with the fewest values that a condition needs; None if it needs none."""
    found = _keys(condition, source)
    usable = sorted(
        (len(values), column) for column, values in found.items() if len(values) <= MOST
    )
    return Key(usable[0][1], found[usable[0][1]]) if usable else None


def last_part(text: str) -> str:
    """Return SQL for the last part of a path, of either kind."""
    return rf"substring_index(substring_index({text}, '\\', -1), '/', -1)"


def _keys(condition: Condition, source: AlertSource) -> Keys:
    match condition:
        case AllOf(parts):
            every = [_keys(part, source) for part in parts]
            found: dict[str, frozenset[str | int]] = {}
            for keys in every:
                for column, values in keys.items():
                    found[column] = found[column] & values if column in found else values
            return found
        case AnyOf(parts):
            every = [_keys(part, source) for part in parts]
            common = frozenset.intersection(*(frozenset(keys) for keys in every))
            return {column: frozenset().union(*(k[column] for k in every)) for column in common}
        case Text(column, glob) if source.is_text(column):
            name = _name(glob.folded.parts, is_cased=glob.cased)
            return {} if name is None else {column: frozenset((name,))}
        case Number(column, Order.IS, number) if source.is_number(column):
            return {column: frozenset((int(number),))} if number == int(number) else {}
        case _:
            return {}


def _name(parts: tuple[str | Wild, ...], *, is_cased: bool) -> str | None:
    """Return the file name that a text must end with, whole."""
    match parts:
        case (str() as text,) if not isinstance(text, Wild):
            whole = text
        case (Wild.MANY, str() as text) if not isinstance(text, Wild) and SEPARATORS.search(text):
            whole = text
        case _:
            return None
    name = SEPARATORS.split(whole)[-1]
    return name.lower() if is_cased else name
