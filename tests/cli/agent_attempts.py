"""What an agent may try: to get a masked value, to write, to read a file, to exceed the limits. Ninety-two attempts; none may succeed.

``{secret}`` is a value of a masked column. An attempt that has it is made with a value that is nowhere as well: where both are answered
alike, nothing was learnt. ``{outside}`` is a file beside the lake, with a text that no answer may have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MASK, WRITE, FILE, LIMIT = "mask", "write", "file", "limit"
READ = "read"
"""The tool's name of an attempt on a resource."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt.

    Args:
        kind: What is tried.
        tool: The tool.
        given: Its arguments.
        is_answered: Whether it is answered, with masks, and not refused.
    """

    kind: str
    tool: str
    given: Mapping[str, Any]
    is_answered: bool = False

    @property
    def asks_for_secret(self) -> bool:
        """Return whether it names the value."""
        return "{secret}" in str(self.given)

    def arguments(self, secret: str, outside: str) -> dict[str, Any]:
        """Return its arguments with a value and a file."""

        def filled(value: Any) -> Any:  # noqa: ANN401  # of a name, a list of names or a number
            if isinstance(value, list):
                return [filled(each) for each in value]
            if not isinstance(value, str):
                return value
            return value.replace("{secret}", secret).replace("{outside}", outside)

        return {name: filled(value) for name, value in self.given.items()}

    def __str__(self) -> str:
        """Return it as it is shown."""
        return f"{self.kind}: {self.tool} {str(dict(self.given))[:80]}"


def _masked(*texts: str) -> tuple[Attempt, ...]:
    return tuple(Attempt(MASK, "query", {"sql": sql}, is_answered=True) for sql in texts)


def _refused(kind: str, *texts: str) -> tuple[Attempt, ...]:
    return tuple(Attempt(kind, "query", {"sql": sql}) for sql in texts)


ACTIONS = "silver.user_actions"

ATTEMPTS = (
    *_masked(
        "SELECT user_id FROM silver.user_actions LIMIT 20",
        "FROM silver.user_actions LIMIT 20",
        "SELECT count(*) FROM silver.user_actions WHERE user_id = '{secret}'",
        "SELECT count(*) FROM silver.user_actions WHERE user_id LIKE '%{secret}%'",
        "SELECT count(*) FROM silver.user_actions WHERE user_id IN ('{secret}', 'x')",
        "SELECT user_id, count(*) FROM silver.user_actions GROUP BY user_id ORDER BY user_id",
        "SELECT count(*) FROM silver.user_actions GROUP BY user_id = '{secret}'",
        "SELECT sum(CASE WHEN user_id < '{secret}' AND user_id > '{secret}' THEN 1 ELSE 0 END) FROM silver.user_actions",
        "SELECT min(user_id), max(user_id), string_agg(user_id) FROM silver.user_actions",
        "SELECT count(*) FROM silver.user_actions WHERE user_id = '[' || left(sha256('{secret}'), 12) || ']'",
        "SELECT count(*) FROM silver.user_actions JOIN (VALUES ('{secret}')) v(u) ON v.u = user_id",
        "SELECT count(*) FROM silver.user_actions WHERE regexp_matches(user_id, '^{secret}$')",
        "SELECT count(*) FROM silver.user_actions WHERE levenshtein(user_id, '{secret}') = 0",
        "SUMMARIZE silver.user_actions",
        "FROM silver.user_actions AT (VERSION => 0) LIMIT 20",
        "SELECT _payload, _message_key, _headers FROM bronze.user_actions LIMIT 20",
        "SELECT count(*) FROM bronze.user_actions WHERE contains(_payload::VARCHAR, '{secret}')",
        "SELECT _payload, _message_key FROM quarantine.user_actions LIMIT 20",
        "SELECT count(*) FROM quarantine.user_actions WHERE contains(_payload::VARCHAR, '{secret}')",
        "SELECT try_cast(user_id AS INTEGER) FROM silver.user_actions LIMIT 20",
    ),
    *_refused(
        MASK,
        "SELECT CAST(user_id AS INTEGER) FROM silver.user_actions",
        "SELECT error(user_id) FROM silver.user_actions",
        "SELECT getvariable('drawn')",
        "SELECT stats(user_id) FROM silver.user_actions",
        "SELECT current_setting('allowed_directories')",
        "FROM duckdb_views()",
    ),
    Attempt(MASK, "why", {"event": "{secret}", "table": ACTIONS}, is_answered=True),
    Attempt(MASK, "why", {"event": "{secret}"}, is_answered=True),
    Attempt(MASK, "quarantine", {"table": ACTIONS, "samples": 20}, is_answered=True),
    Attempt(MASK, "quarantine", {"table": ACTIONS, "reason": "{secret}"}, is_answered=True),
    *_refused(
        WRITE,
        "INSERT INTO silver.user_actions VALUES (1)",
        "UPDATE silver.user_actions SET action = 'x'",
        "DELETE FROM silver.user_actions",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW silver.user_actions",
        "SELECT 1; DROP VIEW silver.user_actions",
        "COPY (SELECT 1) TO '{outside}.copied'",
        "EXPORT DATABASE '{outside}.exported'",
        "ATTACH '{outside}.db' AS other",
        "CREATE MACRO m() AS 1",
        "SET enable_external_access = true",
        "PRAGMA database_list",
    ),
    *_refused(
        FILE,
        "FROM read_csv('{outside}')",
        "FROM read_text('{outside}')",
        "FROM '{outside}'",
        "FROM glob('/*')",
        "FROM parquet_scan('{outside}')",
        "WITH f AS (FROM read_blob('{outside}')) SELECT * FROM f",
        "SELECT (SELECT max(content) FROM read_text('{outside}'))",
        "INSTALL httpfs",
        "LOAD httpfs",
        "FROM read_json('http://127.0.0.1:1/x')",
    ),
    Attempt(FILE, READ, {"uri": "strandline://docs/../../pyproject"}),
    Attempt(FILE, READ, {"uri": "file://{outside}"}),
    # With moments, comparisons and costs.
    *_masked(
        "SELECT user_id FROM silver.user_actions AT MOMENT LATEST",
        "SELECT count(*) FROM silver.user_actions WHERE user_id = '{secret}' AT MOMENT LATEST",
        "SELECT user_id FROM silver.user_actions AT (TIMESTAMP => now() + INTERVAL 1 DAY) LIMIT 20",
        "SELECT count(*) FROM silver.user_actions AT (VERSION => 0) WHERE user_id >= '{secret}' AND user_id <= '{secret}'",
        "SELECT entry FROM ledger.entries WHERE contains(entry, '{secret}')",
    ),
    *_refused(
        MASK,
        "FROM silver.user_actions AT (VERSION => (SELECT min(length(user_id)) FROM silver.user_actions))",
        "FROM silver.user_actions AT (VERSION => getvariable('drawn'))",
        "FROM silver.user_actions AT (TIMESTAMP => current_setting('home_directory'))",
        "FROM silver.user_actions AT MOMENT '{secret}'",
    ),
    Attempt(MASK, "diff", {"table": ACTIONS, "since": "0", "by": ["user_id"]}),
    Attempt(MASK, "diff", {"table": ACTIONS, "since": "0", "by": ["_payload"]}),
    Attempt(MASK, "diff", {"table": ACTIONS, "since": "{secret}"}),
    Attempt(MASK, "diff", {"table": "quarantine.user_actions", "since": "0"}),
    Attempt(
        MASK,
        "diff",
        {"table": ACTIONS, "since": "2020-01-01T00:00", "limit": 100},
        is_answered=True,
    ),
    Attempt(
        MASK,
        "diff",
        {"table": "bronze.user_actions", "since": "2020-01-01T00:00", "limit": 100},
        is_answered=True,
    ),
    Attempt(MASK, "cost", {"tables": ["silver.{secret}"]}),
    Attempt(MASK, "moments", {"last": 100}, is_answered=True),
    *_refused(
        FILE,
        "FROM silver.user_actions AT MOMENT '../../outside'",
        "FROM silver.user_actions AT MOMENT '{outside}'",
        "FROM silver.user_actions AT (TIMESTAMP => '{outside}')",
        "FROM 'silver/user_actions/*.parquet'",
    ),
    Attempt(FILE, "diff", {"table": "../../outside", "since": "0"}),
    Attempt(FILE, "diff", {"table": ACTIONS, "since": "../named/x/moment.json"}),
    Attempt(FILE, "cost", {"day": "/etc/passwd"}),
    Attempt(FILE, READ, {"uri": "strandline://declarations/../moments"}),
    # Last, because one that hears no end works on beside those after it.
    *_refused(
        LIMIT,
        "FROM range(100000)",
        "SELECT repeat('x', 10000000)",
        "SELECT sum(hash(i) % 7) FROM range(100000000000) t(i)",
        "SELECT list_sort(range(300000000))[1]",
        "SELECT '" + "x" * 25_000 + "'",
    ),
    Attempt(LIMIT, "quarantine", {"table": ACTIONS, "samples": 1_000}),
    *_refused(
        LIMIT,
        "FROM silver.user_actions AT (VERSION => len(range(3000000000)))",
        "FROM silver.user_actions AT (VERSION => length(repeat('x', 2000000000)))",
    ),
    Attempt(LIMIT, "moments", {"last": 101}),
    Attempt(LIMIT, "diff", {"table": ACTIONS, "since": "0", "limit": 101}),
    Attempt(LIMIT, "diff", {"table": ACTIONS, "since": "0", "by": ["action"] * 6}),
    Attempt(LIMIT, "cost", {"since": "0001-01-02", "until": "9999-12-30"}),
    Attempt(LIMIT, "cost", {"day": "9999-12-31"}),
)
