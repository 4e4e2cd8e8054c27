"""Twenty questions over ten million rows: ``strandline query``, Polars by ``lake()``, DuckDB on the files alone, Spark alone, and JDBC.

The lake's tables are written by delta-rs in the lake's layout, with the columns of the real tables, because ten million events
through Kafka would take the length of the whole run; a question cannot see the difference. All answers are compared.

    python -m tests.benchmarks.twenty_questions --jdbc --rows 10000000
"""

import argparse
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
from deltalake import write_deltalake
from strandline import catalog

from strandline.engine.ask.lake_reader import lake
from strandline.engine.ask.sql_query import ask
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start
from tests.benchmarks.machine import facts
from tests.benchmarks.questions import QUESTIONS, Question
from tests.cli.serving import PASSWORD, serving
from tests.support.jdbc import Connection, driver

REPORT = Path(__file__).with_name("reports") / "twenty_questions.md"
ENGINES = ("query", "Polars", "DuckDB", "Spark", "JDBC")
ROWS = 10_000_000
FILES = 16
"""Files of a table of ten million rows, about as many as maintenance leaves of one."""
START = "TIMESTAMPTZ '2026-10-01 00:00:00+00'"
DEVICES = 10_000
SHARES = {
    "silver.device_telemetry": (
        0.6,
        f"""SELECT 'e' || i AS event_id, 'd' || lpad((hash(i) % {DEVICES})::VARCHAR, 5, '0') AS device_id,
            ['temperature', 'humidity', 'battery', 'pressure', 'vibration'][(1 + hash(i, 1) % 5)::BIGINT] AS signal,
            CAST((hash(i, 2) % 1000000) / 10000.0 AS DECIMAL(14, 4)) AS value,
            {START} + to_microseconds((i * (2592000000000 // {{rows}}))::BIGINT) AS event_at,
            'f' || hash(i, 3) % 7 AS firmware, i AS seq FROM range({{rows}}) r(i)""",
    ),
    "silver.network_connections": (
        0.3,
        f"""SELECT 'c' || i AS connection_id, 'ip' || hash(i, 4) % {DEVICES} AS src_ip,
            'ip' || hash(i, 5) % 1000 AS dst_ip, (hash(i, 6) % 500)::BIGINT AS dst_port,
            (hash(i, 7) % 100000)::BIGINT AS bytes_out, (hash(i, 8) % 100000)::BIGINT AS bytes_in,
            {START} + to_microseconds((i * (2592000000000 // {{rows}}))::BIGINT) AS event_at FROM range({{rows}}) r(i)""",
    ),
    "silver.user_actions": (
        0.094,
        f"""SELECT 'a' || i AS action_id, 'u' || hash(i, 9) % 5000 AS user_id,
            ['login', 'logout', 'read', 'write'][(1 + hash(i, 10) % 4)::BIGINT] AS action,
            'd' || lpad((hash(i, 11) % {DEVICES})::VARCHAR, 5, '0') AS device_id,
            {START} + to_microseconds((i * (2592000000000 // {{rows}}))::BIGINT) AS event_at FROM range({{rows}}) r(i)""",
    ),
    "silver.devices": (
        0,
        f"""SELECT 'd' || lpad(d::VARCHAR, 5, '0') AS device_id, 'site' || hash(d, k) % 20 AS site, 'm' || d % 5 AS model,
            {START} + to_days((15 * k)::INTEGER) AS valid_from,
            CASE WHEN k = 0 THEN {START} + to_days(15) END AS valid_until
            FROM range({DEVICES}) r(d), range(2) s(k)""",
    ),
    "gold.ip_holds": (
        0,
        f"""SELECT 'ip' || d AS ip, 'd' || lpad(((d + k) % {DEVICES})::VARCHAR, 5, '0') AS device_id,
            {START} + to_days((8 * k)::INTEGER) AS held_from, {START} + to_days((8 * k + 7)::INTEGER) AS held_until
            FROM range({DEVICES}) r(d), range(4) s(k)""",
    ),
}
"""The tables: their share of the rows, or a fixed number, and what their rows are."""


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer of an engine, and how long it took."""

    seconds: float
    rows: list[tuple[object, ...]]


def make(root: Path, rows: int) -> tuple[Lake, int]:
    """Write a lake of about so many rows; return it and their number."""
    made, duck = Lake(root).open_for_writing(), duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    total = 0
    for table in catalog.tables():
        if table.id not in SHARES:
            continue
        share, sql = SHARES[table.id]
        count = round(rows * share)
        batches = duck.execute(sql.format(rows=count)).to_arrow_reader(1_000_000)
        size = max(1_000_000, 64 * rows * 8 // FILES // 8)
        write_deltalake(str(made.table(table)), batches, target_file_size=size)
        total += int(
            duck.execute(f"SELECT count(*) FROM '{made.table(table)}/*.parquet'").fetchall()[0][0]
        )
    return made, total


def plain(question: Question, where: Callable[[str], str]) -> str:
    """Return a question with other names of its tables."""
    sql = question.sql
    for name in SHARES:
        sql = re.sub(rf"\b{re.escape(name)}\b", where(name), sql)
    return sql


@contextmanager
def server(made: Lake, *, is_wanted: bool) -> Iterator[Connection | None]:
    """Serve the lake to a client over JDBC, if that is wanted."""
    if not is_wanted:
        yield None
        return
    log = made.root.local.with_name("serve.log")
    with (
        serving(made, log, "--rows", 1_000_000, "--nice", 0, "--cores", 2, "--memory", "2g") as url,
        driver() as client,
        client.connected(url, "ana", PASSWORD) as connection,
    ):
        connection.value("SELECT 1")
        yield connection


def same(rows: Iterable[Sequence[object]]) -> list[tuple[object, ...]]:
    """Return rows as all engines have them alike: in an order, without kinds of numbers and of zones."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> object:  # noqa: ANN401  # whatever an engine returns
    match value:
        case bool() | str() | None:
            return value
        case int() | float() | Decimal():
            return round(float(value), 4)
        case datetime():
            return value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case _:
            return str(value)


def timed(work: Callable[[], Iterable[Sequence[object]]]) -> Timed:
    """Answer once, and say how long that took."""
    began = time.perf_counter()
    rows = [tuple(row) for row in work()]
    return Timed(time.perf_counter() - began, same(rows))


def measure(
    made: Lake, connection: Connection | None
) -> tuple[list[dict[str, Timed]], dict[str, float]]:
    """Ask all engines all questions, and return how long they needed before the first."""
    tables, duck = catalog.tables(), duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    ready: dict[str, float] = {}
    began = time.perf_counter()
    frames = {name: lake(str(made.root))[name].polars() for name in SHARES}
    ready["Polars"] = time.perf_counter() - began
    began = time.perf_counter()
    spark = start(settings(lake=str(made.root)), made.program_log("spark"))
    spark.sql("SELECT 1").collect()
    ready["Spark"] = time.perf_counter() - began

    def files(name: str) -> str:
        return f"read_parquet('{made.root}/{name.replace('.', '/')}/*.parquet')"

    def delta(name: str) -> str:
        return f"delta.`{made.root}/{name.replace('.', '/')}`"

    answers = []
    for each in QUESTIONS:
        found = {
            "query": timed(lambda: ask(each.sql, tables, made).rows),  # noqa: B023  # called at once
            "Polars": timed(lambda: each.polars(frames).rows()),  # noqa: B023  # as above
            "DuckDB": timed(lambda: duck.execute(plain(each, files)).fetchall()),  # noqa: B023  # as above
            "Spark": timed(lambda: spark.sql(plain(each, delta)).collect()),  # noqa: B023  # as above
        }
        if connection:
            found["JDBC"] = timed(lambda: connection.objects(each.sql))  # noqa: B023  # as above
        answers.append(found)
    spark.stop()
    return answers, ready


def report(answers: list[dict[str, Timed]], ready: dict[str, float], rows: int) -> str:
    """Return the page."""
    about = ", ".join(f"{name} {value}" for name, value in facts().items())
    lines = [
        f"# Twenty questions over {rows:,} rows",
        "",
        "Made by `python -m tests.benchmarks.twenty_questions --jdbc`.",
        f"Machine: {about}.",
        "",
        "Seconds, each question once, all engines in turns in one process, files in the page cache.",
        "`query` opens its tables anew for each question, as `strandline query` does, without the start of the program. "
        f"`Polars` works on whole frames that `lake()` read before, in {ready['Polars']:.1f} s, user ids masked. "
        "`DuckDB` reads the same Parquet files by their paths. "
        f"`Spark` reads the Delta tables, in a session that had started in {ready['Spark']:.1f} s and whose JVM is cold at the first. "
        + ("" if any("JDBC" in each for each in answers) else "JDBC was not there. "),
        "The tables were written by delta-rs in the lake's layout, and not by a stream.",
        "",
        f"| question | {' | '.join(ENGINES)} | rows | equal |",
        f"|---|{'---:|' * len(ENGINES)}---:|---|",
    ]
    for question, found in zip(QUESTIONS, answers, strict=True):
        times = [f"{found[name].seconds:.2f}" if name in found else "" for name in ENGINES]
        wrong = differing(found)
        equal = f"NO: {', '.join(wrong)}" if wrong else "yes"
        lines.append(
            f"| {question.kind} | {' | '.join(times)} | {len(found['query'].rows)} | {equal} |"
        )
    sums = [
        f"**{sum(f[name].seconds for f in answers):.1f}**"
        if all(name in f for f in answers)
        else ""
        for name in ENGINES
    ]
    lines.append(f"| **all** | {' | '.join(sums)} | | |")
    return "\n".join(lines) + "\n"


def differing(found: dict[str, Timed]) -> list[str]:
    """Return the engines whose answer is not that of ``query``."""
    return [name for name, each in found.items() if each.rows != found["query"].rows]


def main() -> None:
    """Make the lake, ask, and write the page."""
    words = argparse.ArgumentParser()
    words.add_argument("--rows", type=int, default=ROWS)
    words.add_argument("--jdbc", action="store_true")
    words.add_argument("--to", type=Path, default=REPORT)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made, rows = make(Path(folder) / "lake", given.rows)
        with server(made, is_wanted=given.jdbc) as connection:
            answers, ready = measure(made, connection)
    given.to.write_text(report(answers, ready, rows))


if __name__ == "__main__":
    main()
