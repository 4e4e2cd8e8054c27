"""Twenty questions that are typical of dashboards and analysts, in SQL and in Polars.

The SQL is understood by DuckDB and by Spark alike. A Polars answer is written as one would in a notebook, on frames of
``lake()``. Each answer is compared with the others, so every order is complete and every number exact or rounded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl
from polars import col

Frames: TypeAlias = Mapping[str, pl.DataFrame]

READINGS, DEVICES = "silver.device_telemetry", "silver.devices"
CONNECTIONS, ACTIONS, HOLDS = (
    "silver.network_connections",
    "silver.user_actions",
    "gold.ip_holds",
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Args:
        kind: What is typical of it.
        sql: It in SQL.
        polars: It on frames.
    """

    kind: str
    sql: str
    polars: Callable[[Frames], pl.DataFrame]


def _valid_now(frames: Frames) -> pl.DataFrame:
    return frames[DEVICES].filter(col("valid_until").is_null())


def _as_of(rows: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Add the site that was valid at each row's time."""
    valid = frames[DEVICES].select("device_id", "site", "valid_from", "valid_until")
    return (
        rows.sort("event_at")
        .join_asof(
            valid.sort("valid_from"),
            left_on="event_at",
            right_on="valid_from",
            by="device_id",
            check_sortedness=False,
        )
        .filter(col("valid_until").is_null() | (col("event_at") < col("valid_until")))
    )


def _held(frames: Frames) -> pl.DataFrame:
    """Add the device that held the source's address to each connection."""
    holds = frames[HOLDS].select("ip", "device_id", "held_from", "held_until").sort("held_from")
    joined = (
        frames[CONNECTIONS]
        .sort("event_at")
        .join_asof(
            holds,
            left_on="event_at",
            right_on="held_from",
            by_left="src_ip",
            by_right="ip",
            check_sortedness=False,
        )
    )
    return joined.filter(col("event_at") < col("held_until"))


def _median(name: str) -> pl.Expr:
    return col(name).sort().get(((pl.len() + 1) // 2) - 1)


NEXT = "ORDER BY event_at, event_id"
AS_OF = "d.valid_from <= {0}.event_at AND ({0}.event_at < d.valid_until OR d.valid_until IS NULL)"

QUESTIONS = (
    Question(
        "count",
        f"SELECT signal, count(*) AS n FROM {READINGS} GROUP BY signal",
        lambda f: f[READINGS].group_by("signal").agg(pl.len()),
    ),
    Question(
        "top-n",
        f"SELECT device_id, count(*) AS n FROM {READINGS} GROUP BY device_id ORDER BY n DESC, device_id LIMIT 10",
        lambda f: (
            f[READINGS]
            .group_by("device_id")
            .agg(pl.len().alias("n"))
            .sort("n", "device_id", descending=[True, False])
            .head(10)
        ),
    ),
    Question(
        "extremes",
        f"SELECT signal, min(value), max(value), sum(value) FROM {READINGS} GROUP BY signal",
        lambda f: (
            f[READINGS]
            .group_by("signal")
            .agg(
                col("value").min().alias("a"),
                col("value").max().alias("b"),
                col("value").sum().alias("c"),
            )
        ),
    ),
    Question(
        "per hour",
        f"SELECT date_trunc('hour', event_at) AS h, count(*) FROM {READINGS} GROUP BY date_trunc('hour', event_at)",
        lambda f: f[READINGS].group_by(col("event_at").dt.truncate("1h")).agg(pl.len()),
    ),
    Question(
        "percentiles",
        f"SELECT signal, percentile_disc(0.5) WITHIN GROUP (ORDER BY value) FROM {READINGS} GROUP BY signal",
        lambda f: f[READINGS].group_by("signal").agg(_median("value")),
    ),
    Question(
        "distinct",
        f"SELECT CAST(event_at AS DATE) AS d, count(DISTINCT device_id) FROM {READINGS} GROUP BY CAST(event_at AS DATE)",
        lambda f: f[READINGS].group_by(col("event_at").dt.date()).agg(col("device_id").n_unique()),
    ),
    Question(
        "first of each",
        f"""SELECT signal, event_id FROM (SELECT signal, event_id, row_number() OVER
            (PARTITION BY signal ORDER BY value DESC, event_id) AS r FROM {READINGS}) t WHERE r <= 3""",
        lambda f: (
            f[READINGS]
            .sort("value", "event_id", descending=[True, False])
            .group_by("signal", maintain_order=True)
            .head(3)
            .select("signal", "event_id")
        ),
    ),
    Question(
        "moving sum",
        f"""SELECT device_id, max(s) FROM (SELECT device_id, sum(value) OVER (PARTITION BY device_id {NEXT}
            ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS s FROM {READINGS} WHERE device_id < 'd00400') t
            GROUP BY device_id""",
        lambda f: (
            f[READINGS]
            .filter(col("device_id") < "d00400")
            .sort("event_at", "event_id")
            .with_columns(
                col("value")
                .cast(pl.Float64)
                .rolling_sum(10, min_samples=1)
                .over("device_id")
                .alias("s")
            )
            .group_by("device_id")
            .agg(col("s").max())
        ),
    ),
    Question(
        "change",
        f"""SELECT count(*) FROM (SELECT value, lag(value) OVER (PARTITION BY device_id, signal {NEXT}) AS before
            FROM {READINGS} WHERE device_id < 'd02000') t WHERE value > before""",
        lambda f: (
            f[READINGS]
            .filter(col("device_id") < "d02000")
            .sort("event_at", "event_id")
            .filter(col("value") > col("value").shift(1).over("device_id", "signal"))
            .select(pl.len())
        ),
    ),
    Question(
        "rank of sums",
        f"""SELECT signal, device_id, s FROM (SELECT signal, device_id, s, row_number() OVER
            (PARTITION BY signal ORDER BY s DESC, device_id) AS r FROM (SELECT signal, device_id, sum(value) AS s
            FROM {READINGS} GROUP BY signal, device_id) t) u WHERE r <= 2""",
        lambda f: (
            f[READINGS]
            .group_by("signal", "device_id")
            .agg(col("value").sum().alias("s"))
            .sort("s", "device_id", descending=[True, False])
            .group_by("signal", maintain_order=True)
            .head(2)
            .select("signal", "device_id", "s")
        ),
    ),
    Question(
        "join",
        f"""SELECT d.site, count(*) FROM {READINGS} r JOIN {DEVICES} d ON r.device_id = d.device_id
            WHERE d.valid_until IS NULL GROUP BY d.site""",
        lambda f: f[READINGS].join(_valid_now(f), on="device_id").group_by("site").agg(pl.len()),
    ),
    Question(
        "as of",
        f"""SELECT d.site, r.signal, count(*) FROM {READINGS} r JOIN {DEVICES} d
            ON r.device_id = d.device_id AND {AS_OF.format("r")} GROUP BY d.site, r.signal""",
        lambda f: _as_of(f[READINGS], f).group_by("site", "signal").agg(pl.len()),
    ),
    Question(
        "join of three",
        f"""SELECT d.model, a.action, count(*), sum(r.n) FROM {ACTIONS} a
            JOIN {DEVICES} d ON a.device_id = d.device_id AND d.valid_until IS NULL
            JOIN (SELECT device_id, count(*) AS n FROM {READINGS} GROUP BY device_id) r
            ON r.device_id = a.device_id GROUP BY d.model, a.action""",
        lambda f: (
            f[ACTIONS]
            .join(_valid_now(f).select("device_id", "model"), on="device_id")
            .join(f[READINGS].group_by("device_id").agg(pl.len().alias("n")), on="device_id")
            .group_by("model", "action")
            .agg(pl.len().alias("a"), col("n").sum().alias("b"))
        ),
    ),
    Question(
        "top-n of sums",
        f"""SELECT dst_port, sum(bytes_out) AS s FROM {CONNECTIONS} GROUP BY dst_port
            ORDER BY s DESC, dst_port LIMIT 10""",
        lambda f: (
            f[CONNECTIONS]
            .group_by("dst_port")
            .agg(col("bytes_out").sum().alias("s"))
            .sort("s", "dst_port", descending=[True, False])
            .head(10)
        ),
    ),
    Question(
        "distinct of each",
        f"SELECT dst_port, count(DISTINCT src_ip) FROM {CONNECTIONS} GROUP BY dst_port",
        lambda f: f[CONNECTIONS].group_by("dst_port").agg(col("src_ip").n_unique()),
    ),
    Question(
        "as of, join of three",
        f"""SELECT d.site, sum(c.bytes_in) FROM {CONNECTIONS} c
            JOIN {HOLDS} h ON h.ip = c.src_ip AND h.held_from <= c.event_at AND c.event_at < h.held_until
            JOIN {DEVICES} d ON d.device_id = h.device_id AND {AS_OF.format("c")} GROUP BY d.site""",
        lambda f: _as_of(_held(f), f).group_by("site").agg(col("bytes_in").sum()),
    ),
    Question(
        "one device",
        f"""SELECT event_id, value FROM {READINGS} WHERE device_id = 'd00123' AND signal = 'temperature'
            ORDER BY event_at DESC, event_id LIMIT 20""",
        lambda f: (
            f[READINGS]
            .filter((col("device_id") == "d00123") & (col("signal") == "temperature"))
            .sort("event_at", "event_id", descending=[True, False])
            .head(20)
            .select("event_id", "value")
        ),
    ),
    Question(
        "without",
        f"""SELECT count(*) FROM {DEVICES} d WHERE d.valid_until IS NULL AND NOT EXISTS
            (SELECT 1 FROM {READINGS} r WHERE r.device_id = d.device_id AND r.value > 99)""",
        lambda f: (
            _valid_now(f)
            .join(f[READINGS].filter(col("value") > 99), on="device_id", how="anti")
            .select(pl.len())
        ),
    ),
    Question(
        "histogram",
        f"SELECT CAST(floor(value / 10) AS INTEGER) AS b, count(*) FROM {READINGS} GROUP BY CAST(floor(value / 10) AS INTEGER)",
        lambda f: (
            f[READINGS]
            .group_by((col("value").cast(pl.Float64) / 10).floor().cast(pl.Int32))
            .agg(pl.len())
        ),
    ),
    Question(
        "cross table",
        f"""SELECT CAST(event_at AS DATE) AS d, sum(CASE WHEN action = 'login' THEN 1 ELSE 0 END),
            sum(CASE WHEN action = 'login' THEN 0 ELSE 1 END), count(DISTINCT user_id)
            FROM {ACTIONS} GROUP BY CAST(event_at AS DATE)""",
        lambda f: (
            f[ACTIONS]
            .group_by(col("event_at").dt.date().alias("d"))
            .agg(
                (col("action") == "login").sum().alias("a"),
                (col("action") != "login").sum().alias("b"),
                col("user_id").n_unique().alias("c"),
            )
        ),
    ),
)
