"""Find the rows in which two bags of rows differ, inside DuckDB, in memory that does not grow with the bags.

Each row has two hashes of 64 bits. Their sums are compared for each of some thousand groups. Only in a group whose sum
or count differs are rows compared one by one, by their hashes, and only the few rows that are shown are read in full.
Hashes are hashed again before they are added: DuckDB makes a row's hash from its columns' by an exclusive or, so two
rows that had exchanged a value had the same sum once in a hundred million times.
A list, a struct or a map is hashed as text, because DuckDB gives NULL and the empty list, or ``[[1], [2]]`` and
``[[1, 2]]``, one hash.

Measured side by side with two Arrow tables and EXCEPT ALL, 5 million rows of nine columns on each side that differ in
two rows: 6.3 GB of memory in Python and 210 s before, 0.3 GB and 15 s now; where every row differs, 0.9 GB and 25 s.
On a lake's silver with what it holds back, 4.85 million rows: 5.2 GB and 267 s before, 0.27 GB and 27 s now, and of
0.33 million rows 0.68 GB before, 0.26 GB now (``python -m tests.benchmarks verify`` weighs a whole verification).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from strandline.engine.storage.duckdb_session import Duck

SAMPLES = 3
GROUPS = 4096
SIDES = ("l", "r")
UNEQUAL = f"getvariable('unequal')[CAST(1 + h % {GROUPS} AS BIGINT)]"
"""The condition that a row's group differs. It is no join, because DuckDB may keep a join's rows and not its groups."""
NESTED = ("STRUCT", "MAP", "UNION", "VARIANT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The rows that one of two bags has and the other has not.

    Args:
        rows: The number of rows of each side.
        only: How many of them the other side has not.
        changed: How many keys have such rows on both sides.
        samples: Some such rows of each side.
    """

    rows: tuple[int, int]
    only: tuple[int, int]
    changed: int
    samples: tuple[list[tuple[object, ...]], list[tuple[object, ...]]]


def difference(duck: Duck, columns: Sequence[str], key: Sequence[str]) -> Difference:
    """Compare the views ``l`` and ``r``.

    Args:
        duck: The connection that has the views.
        columns: The compared columns; both views have them.
        key: Those of them that identify a row; empty when unknown.
    """
    _number(duck, columns, key)
    rows = _count_groups(duck)
    surplus = "CREATE TEMP TABLE surplus AS SELECT k, h, g, sum(n) AS n FROM (%s) GROUP BY ALL HAVING sum(n) <> 0"
    parts = (
        f"SELECT k, h, g, {sign} AS n FROM numbered_{side} WHERE {UNEQUAL}"  # noqa: S608  # no user's text
        for side, sign in zip(SIDES, (1, -1), strict=True)
    )
    duck.execute(surplus % " UNION ALL ".join(parts))
    only = tuple(_one(duck, f"SELECT sum(abs(n)) FROM surplus WHERE n {of} 0") for of in "><")  # noqa: S608  # as above
    both = "SELECT k FROM surplus GROUP BY k HAVING min(n) < 0 AND max(n) > 0"
    return Difference(
        rows=rows,
        only=(only[0], only[1]),
        changed=_one(duck, f"SELECT count(*) FROM ({both})") if key else 0,  # noqa: S608  # as above
        samples=(_samples(duck, "l", ">", columns), _samples(duck, "r", "<", columns)),
    )


def _number(duck: Duck, columns: Sequence[str], key: Sequence[str]) -> None:
    """Create views of both sides with the hashes of each row and of its key, after a cast to common types."""
    names = ", ".join(f'"{column}"' for column in columns)
    both = duck.execute(f"DESCRIBE SELECT {names} FROM l UNION ALL SELECT {names} FROM r")  # noqa: S608  # as above
    values = {str(row[0]): _value(str(row[0]), str(row[1])) for row in both.fetchall()}
    whole = ", ".join(values.values())
    back = ", ".join(reversed(values.values()))
    part = ", ".join(values[column] for column in key) or "0"
    for side in SIDES:
        duck.execute(
            f"CREATE VIEW numbered_{side} AS SELECT {names}, "  # noqa: S608  # as above
            f"hash({part}) AS k, hash({whole}) AS h, hash('g', {back}) AS g FROM {side}"
        )


def _value(column: str, kind: str) -> str:
    value = f'CAST("{column}" AS {kind})'
    is_nested = kind.endswith("]") or kind.startswith(NESTED)
    return f"CAST({value} AS VARCHAR)" if is_nested else value


def _count_groups(duck: Duck) -> tuple[int, int]:
    """Mark the groups that differ between the sides, and return the number of rows of each side."""
    for side in SIDES:
        duck.execute(
            f"CREATE TEMP TABLE groups_{side} AS SELECT h % {GROUPS} AS place, count(*) AS n, "  # noqa: S608  # as above
            f"sum(hash(h)) AS sum_h, sum(hash(g)) AS sum_g FROM numbered_{side} GROUP BY place"
        )
    duck.execute(
        "SET VARIABLE unequal = (SELECT list(l IS DISTINCT FROM r ORDER BY place) "  # noqa: S608  # as above
        f"FROM (SELECT unnest(range({GROUPS})) AS place) "
        "LEFT JOIN groups_l AS l USING (place) LEFT JOIN groups_r AS r USING (place))"
    )
    left, right = (_one(duck, f"SELECT sum(n) FROM groups_{side}") for side in SIDES)  # noqa: S608  # as above
    return left, right


def _samples(duck: Duck, side: str, sign: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """Return a few differing rows of one side; the order by key makes the sides show the same keys if they share some."""
    chosen = f"SELECT h, g FROM surplus WHERE n {sign} 0 ORDER BY k, h LIMIT {SAMPLES}"  # noqa: S608  # as above
    wanted = [f"h = {h} AND g = {g}" for h, g in duck.execute(chosen).fetchall()]
    if not wanted:
        return []
    names = ", ".join(f'"{column}"' for column in columns)
    rows = f"SELECT DISTINCT {names} FROM numbered_{side} WHERE {' OR '.join(wanted)}"  # noqa: S608  # as above
    return duck.execute(f"{rows} ORDER BY ALL").fetchall()


def _one(duck: Duck, question: str) -> int:
    row = duck.execute(question).fetchone()
    return int(row[0] or 0) if row else 0
