"""The statistics of a file that holds the rows of others: theirs put together, without looking at a value.

Delta skips a file by its smallest and largest values, so these may be too wide and never too narrow. A column of which one
of the files says nothing gets none. Numbers are compared as decimals; one that a JSON number of Python cannot hold exactly
gets no statistic, because one that was rounded would hide rows. Times are compared as text, which is their order unless a
year has more than four digits or is negative; then they get none either.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

COUNT, LOWEST, HIGHEST, NULLS = "numRecords", "minValues", "maxValues", "nullCount"


def combined(texts: Iterable[str | None], times: Collection[str] = ()) -> str | None:
    """Return the statistics of some files together, as the log has them; None where one has none.

    Args:
        texts: Those of each.
        times: The names of the columns that hold dates or times.
    """
    stats = []
    for text in texts:
        if not text:
            return None
        stats.append(json.loads(text, parse_float=Decimal))
    if any(COUNT not in each for each in stats):
        return None
    total = {COUNT: sum(each[COUNT] for each in stats)}
    total[LOWEST] = _extremes(stats, LOWEST, min, times)
    total[HIGHEST] = _extremes(stats, HIGHEST, max, times)
    total[NULLS] = _nulls([each.get(NULLS, {}) for each in stats])
    return json.dumps(total, separators=(",", ":"))


def _extremes(
    stats: Sequence[Mapping[str, Any]],
    side: str,
    choose: Callable[[Sequence[Any]], Any],
    times: Collection[str],
) -> dict[str, Any]:
    names = {name for each in stats for name in each.get(side, {})}
    found = {}
    for name in sorted(names):
        known = [each.get(side, {}).get(name) for each in stats if not _is_all_null(each, name)]
        value = _extreme(known, choose)
        is_unordered = name in times and any(str(each)[0] in "+-" for each in known if each)
        if value is not None and not is_unordered:
            found[name] = value
    return found


def _is_all_null(stats: Mapping[str, Any], name: str) -> bool:
    return bool(stats.get(NULLS, {}).get(name) == stats[COUNT])


def _extreme(values: Sequence[Any], choose: Callable[[Sequence[Any]], Any]) -> Any:  # noqa: ANN401  # values of JSON
    kinds = {_kind(value) for value in values}
    if len(kinds) != 1 or not values or None in kinds:
        return None
    value = choose(values)
    if not isinstance(value, Decimal):
        return value
    return float(value) if Decimal(repr(float(value))) == value else None


def _kind(value: object) -> type | None:
    match value:
        case bool():
            return None
        case str():
            return str
        case int() | Decimal():
            return Decimal
        case _:  # one is missing, or it is of a structure
            return None


def _nulls(counts: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    names = set.intersection(*(set(each) for each in counts)) if counts else set()
    return {
        name: sum(each[name] for each in counts)
        for name in sorted(names)
        if all(isinstance(each[name], int) for each in counts)
    }
