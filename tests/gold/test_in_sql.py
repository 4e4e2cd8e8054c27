"""Five gold tables of the example in SQL have the rows that they have in Python, in every mode."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.gold import (
    attributed_connections,
    confirmed_logins,
    device_daily,
    device_signal_10m,
    site_traffic_1h,
    traffic_scores,
)
from fleet.silver import (
    device_telemetry,
    devices,
    network_connections,
    user_actions,
    user_confirmations,
)
from strandline.core.table import Recomputed, Table
from strandline.engine.lake.lake import Lake
from strandline.engine.proof.second_engine import recompute
from strandline.sql_file import load
from strandline.sql_function import columns_of
from tests.architecture.tree import ROOT
from tests.support import fleet_in_sql
from tests.support.literal import TWO, WAYS, Log, in_every_way
from tests.support.rows import NOON
from tests.support.shapes import INTERVALS, arrived
from tests.support.shapes import SIGNALS as OF_SIGNALS

READINGS = """
    batch | event_id | device_id | signal | value   | event_at        | _arrived_at
    1     | a        | d1        | t      | 1.1     | 09:00:00        | 09:00:01
    1     | b        | d1        | t      | 2.2     | 09:09:59.999999 | 09:10:00
    1     | c        | d1        | t      | 5       | 09:10:00        | 09:10:01
    1     | d        | d1        | t      | 0.0001  | 09:01:00        | 09:10:01
    2     | e        | d2        | t      | -3.5    | 09:04:00        | 09:10:02
    2     | f        | d2        | t      | -       | 09:05:00        | 09:10:03
    3     | g        | d1        | t      | 7       | 12:25:00        | 12:25:00
"""
ACTIONS = """
    batch | action_id | user_id | action | event_at
    1     | a         | u1      | login  | 09:00:00
    1     | b         | u1      | login  | 09:00:00
    1     | i         | u2      | logout | 09:12:00
    2     | e         | u3      | login  | 09:20:00
    3     | clock     | u9      | logout | 12:00:00
"""
CONFIRMATIONS = """
    batch | confirmation_id | action_id | user_id | method | event_at
    1     | ca              | a         | u1      | app    | 09:02:00
    1     | cb              | b         | u1      | app    | 09:02:00.000001
    1     | ce              | e         | u3      | -      | 09:20:30
    2     | ci              | i         | u2      | sms    | 09:12:20
    3     | clock           | none      | u9      | -      | 12:00:00
"""
INTERVALS_OF_TWO = """
    batch | device_id | valid_from | valid_until | site
    1     | d1        | 08:00:00   | 09:05:00    | osaka
    2     | d1        | 09:05:00   | -           | boston
    2     | d3        | 01:00:00   | -           | berlin
"""
CONNECTIONS = """
    batch | connection_id | device_id | bytes_out | bytes_in | event_at | window_from
    1     | c1            | d1        | 1         | 10       | 09:04:00 | 09:00:00
    1     | c2            | unknown   | 2         | 20       | 09:05:00 | 09:00:00
    2     | c3            | d1        | 4         | 40       | 09:06:00 | 09:00:00
"""
WINDOWS = """
    batch | device_id | signal | window_from | window_until | readings | min_value | max_value
    1     | d1        | t      | 08:50:00    | 09:00:00     | 2        | 1.00      | 5.00
    1     | d1        | t      | 15:00:00    | 15:10:00     | 3        | 2.00      | 9.00
    2     | d2        | t      | 16:00:00    | 16:10:00     | 1        | 0.00      | 0.00
    2     | d3        | t      | 23:50:00    | 23:55:00     | 1        | 0.00      | 0.00
"""
SENT = """
    batch | connection_id | bytes_out | event_at | _arrived_at
    1     | a             | 17        | 12:00:00 | 12:00:01
    2     | b             | -         | 11:00:00 | 12:00:02
"""


def cases() -> list[object]:
    """Return each table in Python and in SQL, the log that both read, and the modes of the SQL."""
    attributed = columns_of(
        "connection_id string, device_id string, bytes_out bigint, bytes_in bigint, event_at timestamp, window_from timestamp"
    )
    found: dict[str, tuple[Table, Table, Log, Sequence[str]]] = {
        "window": (
            device_signal_10m.TABLE,
            fleet_in_sql.SIGNALS,
            {device_telemetry.TABLE: (arrived(device_telemetry.FIELDS), READINGS)},
            WAYS,
        ),
        "join of streams": (
            confirmed_logins.TABLE,
            fleet_in_sql.LOGINS,
            {
                user_actions.TABLE: (user_actions.FIELDS, ACTIONS),
                user_confirmations.TABLE: (user_confirmations.FIELDS, CONFIRMATIONS),
            },
            WAYS,
        ),
        "sliding": (
            site_traffic_1h.TABLE,
            fleet_in_sql.TRAFFIC,
            {
                attributed_connections.TABLE: (attributed, CONNECTIONS),
                devices.TABLE: (INTERVALS, INTERVALS_OF_TWO),
            },
            TWO,
        ),
        "business days": (
            device_daily.TABLE,
            fleet_in_sql.DAILY,
            {
                device_signal_10m.TABLE: (OF_SIGNALS, WINDOWS),
                devices.TABLE: (INTERVALS, INTERVALS_OF_TWO),
            },
            TWO,
        ),
        "selection": (
            traffic_scores.TABLE,
            fleet_in_sql.SCORES,
            {network_connections.TABLE: (arrived(network_connections.FIELDS), SENT)},
            TWO,
        ),
    }
    return [pytest.param(*case, id=name) for name, case in found.items()]


@pytest.mark.whole("business days", "sliding")
@pytest.mark.slow
@pytest.mark.parametrize(("python", "in_sql", "log", "ways"), cases())
def test_a_table_in_sql_has_the_rows_of_the_one_in_python(  # noqa: PLR0913, PLR0917  # both, and how
    spark: SparkSession,
    tmp_path: Path,
    python: Table,
    in_sql: Table,
    log: Log,
    ways: Sequence[str],
) -> None:
    """Written by another hand, run in every mode."""
    expected = in_every_way(spark, tmp_path / "python", python, log, ways=("batch",))

    assert in_every_way(spark, tmp_path / "sql", in_sql, log, ways=ways) == expected
    assert expected
    for way in ways:
        lake = Lake(tmp_path / "sql" / way)
        assert recompute(in_sql, lake, lambda: NOON, lambda _: None).equal


OF_PAGE = re.compile(r"`gold/(\w+)\.sql`.*?```sql\n(.*?)```", re.DOTALL)
PAGE: Sequence[tuple[str, str]] = OF_PAGE.findall((ROOT / "infra/docs/sql.md").read_text())
LOG_OF_PAGE: Log = {
    device_telemetry.TABLE: (arrived(device_telemetry.FIELDS), READINGS),
    user_actions.TABLE: (user_actions.FIELDS, ACTIONS),
    user_confirmations.TABLE: (user_confirmations.FIELDS, CONFIRMATIONS),
}


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), PAGE, ids=[name for name, _ in PAGE])
def test_a_table_of_the_page_has_one_answer_in_every_mode_and_by_another_engine(
    spark: SparkSession, tmp_path: Path, name: str, text: str
) -> None:
    """As it is written there, from one file."""
    file = tmp_path / f"{name}.sql"
    file.write_text(text)
    table = load(file, f"fleet.gold.{name}")
    log = {source: LOG_OF_PAGE[source] for source in table.upstream}
    ways = TWO if isinstance(table, Recomputed) else WAYS

    found = in_every_way(spark, tmp_path, table, log, ways=ways)

    assert found
    for way in ways:
        certificate = recompute(table, Lake(tmp_path / way), lambda: NOON, lambda _: None)
        assert certificate.equal, certificate.differences
        assert certificate.rows == len(found)


def test_the_page_has_a_window_a_join_and_a_funnel() -> None:
    """So that none is left out above."""
    assert [name for name, _ in PAGE] == ["readings_1h", "answered_logins", "login_funnel_1h"]
