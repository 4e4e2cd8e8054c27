"""A value that is written into SQL is read from it unchanged."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from strandline.engine.lake.duckdb_table import (
    duck_error,
    is_one_select,
    literal,
    seal,
    session,
)

NOON = datetime(2026, 11, 20, 12, 0, 0, 999_999, tzinfo=UTC)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("value", "read"),
    [
        (None, None),
        ("O'Hara; DROP TABLE t --", "O'Hara; DROP TABLE t --"),
        (b"\x00\xff'", b"\x00\xff'"),
        (7, 7),
        (True, True),
        (Decimal("1.50"), Decimal("1.50")),
        (NOON, NOON.replace(tzinfo=None)),
        (NOON.astimezone(timezone(timedelta(hours=1))), NOON.replace(tzinfo=None)),
    ],
)
def test_a_literal_is_its_value(value: object, read: object) -> None:
    """Quotes are doubled, bytes are hexadecimal, and times are in UTC."""
    with session() as duck:
        assert duck.execute(f"SELECT {literal(value)}").fetchall() == [(read,)]


def test_a_time_with_a_zone_is_found_by_a_literal() -> None:
    """The database compares in UTC, whatever the zone of the machine."""
    with session() as duck:
        duck.execute("CREATE TABLE t AS SELECT TIMESTAMPTZ '2026-11-20 13:00:00+01:00' AS moment")
        noon = literal(datetime(2026, 11, 20, 12, tzinfo=UTC))

        assert duck.execute(f"SELECT moment = {noon} FROM t").fetchall() == [(True,)]  # noqa: S608  # our own names


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "CREATE TABLE t (a INT)", "COPY t TO 'x'"])
def test_what_is_not_one_select_is_refused(sql: str) -> None:
    """A query changes nothing."""
    with session() as duck:
        assert is_one_select(duck, "SELECT 1")
        assert not is_one_select(duck, sql)


@pytest.mark.whole
def test_a_sealed_database_opens_no_file() -> None:
    """Also where a query asks for it."""
    with session() as duck:
        seal(duck)
        with pytest.raises(duck_error(), match="disabled"):
            duck.execute("SELECT * FROM read_text('/etc/hostname')")
        with pytest.raises(duck_error()):
            duck.execute("SET enable_external_access = true")
