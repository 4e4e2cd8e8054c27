"""A real PostgreSQL gets each change exactly once, with the position in the same transaction."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

import pytest
from deltalake import DeltaTable

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.flow.publications import PostgresTable, publications, refusals
from strandline.engine.flow.publisher import Publisher
from strandline.engine.flow.targets import ToPostgres
from strandline.engine.lake.duckdb_table import Range
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import FencedError
from tests.support import publishing
from tests.support.postgres import Server, served
from tests.support.publishing import NOON, ORDERS, order, sent, sent_anew, write

Starts: TypeAlias = Callable[[], Publisher]
Rows: TypeAlias = dict[str, tuple[Decimal, int]]

TABLE = PostgresTable("paid.orders", url="SHOP_DATABASE")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Serve a database."""
    with served() as running:
        yield running


@pytest.fixture
def shop(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """Make an empty database."""
    server.execute("DROP DATABASE IF EXISTS shop WITH (FORCE)", "CREATE DATABASE shop")
    server.execute("CREATE SCHEMA paid", database="shop")
    monkeypatch.setenv("SHOP_DATABASE", server.url("shop"))
    return server


@pytest.fixture
def publisher(lake: Lake, shop: Server) -> Starts:  # noqa: ARG001  # it is there
    """Return a function that makes a publisher, as each start of a process does."""
    lake.open_for_writing()
    return lambda: publishing.publisher(
        lake, TABLE, lambda columns: ToPostgres(TABLE.name, TABLE.url, "out", columns.kinds)
    )


def _rows(shop: Server) -> Rows:
    found = shop.ask("SELECT order_id, amount, _version FROM paid.orders", "shop")
    return {name: (amount, version) for name, amount, version in found}


def test_rows_come_are_replaced_and_go(lake: Lake, publisher: Starts, shop: Server) -> None:
    write(lake, [order(number) for number in range(3)])
    sent(publisher())
    write(lake, [order(0, "9.00"), order(3)], "order_id IN ('o0', 'o1', 'o3')")

    sent(publisher())

    one = Decimal("1.00")
    assert _rows(shop) == {"o0": (Decimal("9.00"), 1), "o2": (one, 0), "o3": (one, 1)}
    kinds = shop.ask(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'orders'",
        "shop",
    )
    assert dict(kinds) == {
        "_key": "text",
        "_version": "bigint",
        "order_id": "text",
        "amount": "numeric",
        "ordered_at": "timestamp with time zone",
    }
    ((at,),) = shop.ask("SELECT ordered_at FROM paid.orders WHERE order_id = 'o0'", "shop")
    assert at == NOON


def test_a_constraint_and_a_zero_byte_refuse_their_rows_alone(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    write(lake, [order(0)])
    sent(publisher())
    shop.execute("ALTER TABLE paid.orders ADD CHECK (amount < 5)", database="shop")
    write(lake, [order(1, "6.00"), order(2), {**order(3), "order_id": "o\x003"}, order(0, "2.00")])

    sent(publisher())

    assert sorted(_rows(shop)) == ["o0", "o2"]
    reasons = sorted(str(each["why"]) for each in refusals(lake, "out").values())
    assert len(reasons) == 2
    assert "NUL" in reasons[0]
    assert "violates check constraint" in reasons[1]
    (seen,) = publications(lake)
    assert (seen["read"], seen["accepted"], seen["refused"]) == (5, 3, 2)


def test_an_end_between_the_database_and_the_lake_sends_nothing_twice(
    lake: Lake, publisher: Starts, shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are appended by a trigger to a table that shows each write."""
    write(lake, [order(number) for number in range(3)])
    sent(publisher())
    shop.execute(
        "CREATE TABLE writes (order_id text)",
        "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN INSERT INTO writes VALUES (NEW.order_id); RETURN NEW; END $$",
        "CREATE TRIGGER noted BEFORE INSERT ON paid.orders FOR EACH ROW EXECUTE FUNCTION noted()",
        database="shop",
    )
    write(lake, [order(3), order(4)])
    killed = publisher()

    def stopped(_: object) -> None:
        raise KeyboardInterrupt

    with killed.lease():
        killed.step()
        write(lake, [order(5)])
        monkeypatch.setattr(killed, "_keep", stopped)
        with pytest.raises(KeyboardInterrupt):
            killed.step()

    assert sent(publisher()) == 6
    assert sorted(shop.ask("SELECT order_id FROM writes", "shop")) == [("o3",), ("o4",), ("o5",)]


def test_one_that_was_replaced_writes_nothing(
    lake: Lake, publisher: Starts, shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former one was suspended within its lease; on another machine its lease is another's by now."""
    write(lake, [order(0)])
    former, later = publisher(), publisher()
    with former.lease():
        former.step()
        monkeypatch.setattr(
            "strandline.engine.flow.publisher.file_of",
            lambda lake, name, kind=".json": lake.publications / f"{name}.other{kind}",
        )
        write(lake, [order(1)])
        assert sent(later) == 2
        write(lake, [order(2)])
        with pytest.raises(FencedError, match="another process publishes"):
            former.step()

    assert sorted(_rows(shop)) == ["o0", "o1"]


def test_all_is_sent_anew_and_what_the_table_has_not_is_gone(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    write(lake, [order(number) for number in range(4)])
    sent(publisher())
    DeltaTable(str(lake.table(ORDERS))).delete("order_id = 'o0'")
    DeltaTable(str(lake.table(ORDERS))).vacuum(0, enforce_retention_duration=False, dry_run=False)
    shop.execute("UPDATE paid.orders SET amount = 7 WHERE order_id = 'o1'", database="shop")
    with pytest.raises(DataError, match="cannot be read any more"):
        sent(publisher())

    sent_anew(publisher())

    one = Decimal("1.00")
    assert _rows(shop) == {"o1": (one, 3), "o2": (one, 3), "o3": (one, 3)}


def test_a_range_is_sent_once_more(lake: Lake, publisher: Starts, shop: Server) -> None:
    write(lake, [order(number) for number in range(4)])
    sent(publisher())
    shop.execute("DELETE FROM paid.orders", database="shop")

    again = publisher()
    with again.lease():
        while again.step():
            pass
        again.replay(Range("ordered_at", NOON, datetime(2026, 11, 2, 12, 2, tzinfo=UTC)))

    assert sorted(_rows(shop)) == ["o0", "o1"]


def test_a_database_that_goes_back_gets_what_it_lacks(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    """As when it is restored from a copy of yesterday, with the position of yesterday."""
    write(lake, [order(0)])
    sent(publisher())
    shop.execute("DROP DATABASE IF EXISTS copy", "CREATE DATABASE copy TEMPLATE shop")
    write(lake, [order(1)])
    sent(publisher())
    shop.execute("DROP DATABASE shop WITH (FORCE)", "ALTER DATABASE copy RENAME TO shop")
    write(lake, [order(2)])

    sent(publisher())

    assert sorted(_rows(shop)) == ["o0", "o1", "o2"]


def test_a_database_that_is_made_anew_is_not_filled_with_half_of_the_rows(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    write(lake, [order(0)])
    sent(publisher())
    shop.execute("DROP SCHEMA paid CASCADE", "CREATE SCHEMA paid", database="shop")
    shop.execute("DROP TABLE strandline_positions", database="shop")
    write(lake, [order(1)])

    with pytest.raises(DataError, match="made anew"):
        sent(publisher())
    sent_anew(publisher())
    assert sorted(_rows(shop)) == ["o0", "o1"]


def test_a_table_that_is_dropped_alone_is_not_filled_with_half_of_the_rows(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    """As one makes it anew: the position stays in another table."""
    write(lake, [order(0)])
    sent(publisher())
    shop.execute("DROP TABLE paid.orders", database="shop")
    write(lake, [order(1)])

    for _ in range(2):
        with pytest.raises(DataError, match="made anew"):
            sent(publisher())
    sent_anew(publisher())
    assert sorted(_rows(shop)) == ["o0", "o1"]


def test_a_database_that_goes_back_behind_a_new_beginning_gets_what_it_lacks(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    """Its position is that of the beginning before."""
    write(lake, [order(0)])
    sent(publisher())
    shop.execute("DROP DATABASE IF EXISTS copy", "CREATE DATABASE copy TEMPLATE shop")
    write(lake, [order(1)])
    sent_anew(publisher())
    shop.execute("DROP DATABASE shop WITH (FORCE)", "ALTER DATABASE copy RENAME TO shop")
    write(lake, [order(2)])

    sent(publisher())

    assert sorted(_rows(shop)) == ["o0", "o1", "o2"]


def test_a_key_too_long_for_the_database_is_refused_alone(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    """Its index takes 2,704 bytes, and a random text cannot be made shorter."""
    long = "".join(random.choices("abcdefghij0123456789", k=9_000))  # noqa: S311  # no secret
    write(lake, [order(0), {**order(1), "order_id": long}, order(2)])

    sent(publisher())

    assert sorted(_rows(shop)) == ["o0", "o2"]
    (refused,) = refusals(lake, "out").values()
    assert "index row" in str(refused["why"])


def test_what_is_no_matter_of_a_row_waits(
    lake: Lake, publisher: Starts, shop: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without rights, and a server that is away."""
    write(lake, [order(0)])
    shop.execute("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN PASSWORD 'g'")
    monkeypatch.setenv("SHOP_DATABASE", shop.url("shop", user="guest", password="g"))  # noqa: S106  # as above
    with pytest.raises(TransientError, match="permission denied"):
        sent(publisher())
    monkeypatch.setenv("SHOP_DATABASE", "postgresql://strandline@127.0.0.1:1/shop")
    with pytest.raises(TransientError, match="Connection refused"):
        sent(publisher())
    monkeypatch.setenv("SHOP_DATABASE", "postgresq//strandline:s3cr3t@db/shop")
    with pytest.raises(DefinitionError, match="no address") as refused:
        sent(publisher())
    assert "s3cr3t" not in str(refused.value)
    monkeypatch.delenv("SHOP_DATABASE")
    with pytest.raises(DefinitionError, match="no SHOP_DATABASE"):
        sent(publisher())

    (seen,) = publications(lake)
    assert (seen["read"], seen["refused"]) == (0, 0)
    assert "SHOP_DATABASE" in seen["away"]


def test_nested_values_are_json_and_columns_that_are_new_are_added(
    lake: Lake, publisher: Starts, shop: Server
) -> None:
    write(lake, [order(0)])
    sent(publisher())
    write(lake, [order(1, **{"lines 100%": [{"sku": "a\u2028'", "price": Decimal("1.10")}]})])

    sent(publisher())

    found = shop.ask('SELECT order_id, "lines 100%" FROM paid.orders ORDER BY 1', "shop")
    assert found == [("o0", None), ("o1", [{"sku": "a\u2028'", "price": "1.10"}])]
