"""The batch of a person who has Polars: one lazy query, written by delta-rs."""

from pathlib import Path

import polars as pl
from deltalake import WriterProperties, write_deltalake

from tests.benchmarks.contestants.contestant import GOLD, SILVER, Place, Stop

ZSTD = WriterProperties(compression="ZSTD", compression_level=1)


class PolarsBatch:
    """Polars in its process."""

    def begin(self, log: Path) -> dict[str, str]:  # noqa: ARG002  # it logs nothing
        """Start nothing: it is a library."""
        return {"polars": pl.__version__}

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Compute the windows, the only table that it is asked for."""
        for _ in names:
            windows(place)

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Refuse: a batch follows nothing."""
        raise NotImplementedError(names, place)


def windows(place: Place) -> None:
    """Summarise the readings of each device, signal and window."""
    value, begins = pl.col("value"), pl.col("event_at").dt.truncate("10m").alias("window_from")
    # One of the values, as the others take it: the smallest that 95 of 100 do not exceed.
    p95 = value.sort().get((pl.len() * 95 + 99) // 100 - 1)
    found = (
        pl.scan_delta(place.table(SILVER))
        .group_by("device_id", "signal", begins)
        .agg(
            pl.len().cast(pl.Int64).alias("readings"),
            value.min().alias("min_value"),
            value.max().alias("max_value"),
            value.mean().alias("avg_value"),
            p95.alias("p95_value"),
        )
        .with_columns(pl.col("window_from").dt.offset_by("10m").alias("window_until"))
    )
    write_deltalake(
        place.table(GOLD), found.collect().to_arrow(), mode="append", writer_properties=ZSTD
    )
