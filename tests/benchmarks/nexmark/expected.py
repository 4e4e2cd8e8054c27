"""The rows that each query must have, computed by DuckDB from the bytes that were sent; no line is shared with Spark or the engine.

Every window is over: later events have moved time on, and their own rows, by numbers beyond all others, are not compared.
Where NEXMark leaves the order of equal bids open, the first one wins; no two bids have one time up to a thousand events a second.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.benchmarks.nexmark.project.nexmark.play import BEYOND

SENT = """
    CREATE VIEW sent AS SELECT topic, arrived_ms, value FROM read_parquet('{file}');
    CREATE TABLE person AS SELECT unnest(json_transform(value,
        '{{"id":"BIGINT","name":"VARCHAR","city":"VARCHAR","state":"VARCHAR","joined_at":"TIMESTAMPTZ"}}'))
        FROM sent WHERE topic = 'nexmark-persons';
    CREATE TABLE auction AS SELECT unnest(json_transform(value,
        '{{"id":"BIGINT","item_name":"VARCHAR","description":"VARCHAR","initial_bid":"BIGINT","reserve":"BIGINT","opened_at":"TIMESTAMPTZ",
        "expires_at":"TIMESTAMPTZ","seller":"BIGINT","category":"BIGINT","extra":"VARCHAR"}}'))
        FROM sent WHERE topic = 'nexmark-auctions';
    CREATE TABLE bid AS SELECT unnest(json_transform(value,
        '{{"auction":"BIGINT","bidder":"BIGINT","price":"BIGINT","channel":"VARCHAR","url":"VARCHAR","bid_at":"TIMESTAMPTZ","extra":"VARCHAR"}}')),
        to_timestamp(arrived_ms / 1000.0) AS arrived_at
        FROM sent WHERE topic = 'nexmark-bids';
"""

WON = """
    SELECT a.*, b.bidder, b.price, b.bid_at, b.extra AS bid_extra FROM auction a JOIN bid b ON a.id = b.auction
        AND b.bid_at >= a.opened_at AND b.bid_at <= a.expires_at
    QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.bid_at) = 1
"""
COUNTED = """
    SELECT auction, to_timestamp(2 * (epoch_ms(bid_at) // 2000 - step)) AS window_from, count(*) AS bids
    FROM bid, range(5) AS steps(step) GROUP BY ALL
"""
TEN = "to_timestamp(10 * (epoch_ms({at}) // 10000))"

QUERIES: Mapping[str, str] = {
    "q0": "SELECT auction, bidder, price, channel, url, bid_at, extra FROM bid",
    "q1": "SELECT auction, bidder, (price * 0.908)::DECIMAL(23, 3) AS price, bid_at, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM person p JOIN auction a ON p.id = a.seller
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    "q4": f"SELECT category, sum(price)::HUGEINT // count(*) AS average FROM ({WON}) GROUP BY category",
    "q5": f"""SELECT auction, bids, window_from FROM ({COUNTED})
        QUALIFY bids = max(bids) OVER (PARTITION BY window_from)""",
    "q6": f"""SELECT seller, id, sum(price) OVER latest // count(*) OVER latest AS average FROM ({WON})
        WINDOW latest AS (PARTITION BY seller ORDER BY expires_at, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)""",
    "q7": f"""WITH top AS (SELECT {TEN.format(at="bid_at")} AS begins, max(price) AS highest FROM bid GROUP BY begins)
        SELECT auction, bidder, price, bid_at, extra FROM bid, top
        WHERE price = highest AND bid_at BETWEEN begins AND begins + INTERVAL 10 SECOND""",
    "q8": f"""SELECT id, name, {TEN.format(at="joined_at")} AS window_from FROM person p
        WHERE EXISTS (FROM auction WHERE seller = p.id AND {TEN.format(at="opened_at")} = {TEN.format(at="p.joined_at")})""",
    "q9": f"""SELECT id, item_name, description, initial_bid, reserve, opened_at, expires_at, seller, category, extra,
        bidder, price, bid_at, bid_extra FROM ({WON})""",
    "q11": """SELECT bidder, count(*) AS bids, min(bid_at) AS session_from, max(bid_at) + INTERVAL 10 SECOND AS session_until
        FROM (SELECT *, sum(begins) OVER (PARTITION BY bidder ORDER BY bid_at ROWS UNBOUNDED PRECEDING) AS session
            FROM (SELECT bidder, bid_at, CASE WHEN lag(bid_at) OVER (PARTITION BY bidder ORDER BY bid_at) + INTERVAL 10 SECOND > bid_at
                THEN 0 ELSE 1 END AS begins FROM bid))
        GROUP BY bidder, session""",
    "q12": f"SELECT bidder, count(*) AS bids, {TEN.format(at='arrived_at')} AS window_from FROM bid GROUP BY bidder, window_from",
    "q18": """SELECT bidder, auction, price, channel, url, bid_at, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY bid_at DESC) = 1""",
    "q19": """SELECT auction, row_number() OVER top AS place, bidder, price, channel, url, bid_at, extra FROM bid
        WINDOW top AS (PARTITION BY auction ORDER BY price DESC, bid_at) QUALIFY place <= 10""",
}
"""Each query as NEXMark says it, over all that was sent."""


class WrongRowsError(Exception):
    """The rows of a contestant are not those that there must be."""


REAL: Mapping[str, str] = {
    **dict.fromkeys(("q0", "q1", "q2", "q5", "q7", "q18", "q19"), f"auction < {BEYOND}"),
    **dict.fromkeys(("q3", "q6", "q8", "q9"), f"id < {BEYOND}"),
    **dict.fromkeys(("q11", "q12"), f"bidder < {BEYOND}"),
    "q4": "category > 0",
}
"""Which rows are not of the events that only move time on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How the rows of a query compare: how many there are, how many are missing, and how many there should not be."""

    query: str
    rows: int
    missing: int
    unexpected: int

    @property
    def is_equal(self) -> bool:
        """Return whether each row is there, as often as it must be, and no other."""
        return self.rows > 0 and not self.missing and not self.unexpected


def keep(records: Iterable[tuple[str, int, bytes]], file: Path) -> None:
    """Write what was sent: topic, arrival in milliseconds, and the bytes."""
    topics, arrivals, values = zip(*records, strict=True)
    columns = {
        "topic": pa.array(topics).dictionary_encode(),
        "arrived_ms": pa.array(arrivals, pa.int64()),
        "value": pa.array([each.decode() for each in values]),
    }
    pq.write_table(pa.table(columns), file)


class Oracle:
    """Knows the rows of each query over what was sent."""

    def __init__(self, file: Path) -> None:
        """Read what ``keep`` wrote."""
        self._engine = duckdb.connect()
        self._engine.execute("SET TimeZone = 'UTC'; SET threads = 1")
        self._engine.execute(SENT.format(file=file))

    def compare(self, query: str, rows: pa.Table) -> Compared:
        """Compare all rows of a query, by the columns that it has in NEXMark."""
        self._engine.execute(
            f"CREATE OR REPLACE TEMP TABLE expected AS FROM ({QUERIES[query]}) WHERE {REAL[query]}"
        )
        self._engine.register("given", rows)
        columns = [
            name for name, *_ in self._engine.execute("FROM expected LIMIT 0").description or ()
        ]
        named = ", ".join(columns)
        # The types of the expected rows, so that a number of another width is the same number.
        self._engine.execute("CREATE OR REPLACE TEMP TABLE found AS FROM expected LIMIT 0")
        self._engine.execute(f"INSERT INTO found SELECT {named} FROM given WHERE {REAL[query]}")
        self._engine.unregister("given")
        missing = self._count("(FROM expected EXCEPT ALL FROM found)")
        unexpected = self._count("(FROM found EXCEPT ALL FROM expected)")
        return Compared(
            query=query, rows=self._count("found"), missing=missing, unexpected=unexpected
        )

    def demand(self, query: str, rows: pa.Table, who: str) -> int:
        """Return the number of rows of a query.

        Raises:
            WrongRowsError: They are not those that there must be.
        """
        found = self.compare(query, rows)
        if not found.is_equal:
            message = f"{who} {query}: of {found.rows:,} rows {found.unexpected:,} should not be, and {found.missing:,} are missing"
            raise WrongRowsError(message)
        return found.rows

    def _count(self, what: str) -> int:
        row = self._engine.execute(f"SELECT count(*) FROM {what}").fetchone()
        return int(row[0]) if row else 0
