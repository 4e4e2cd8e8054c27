"""The batch of a person who has DuckDB: one statement over all files. The same statements are the oracle's (oracle.py).

The parse is as strict as the others': a reason for each record that is no reading, the first that applies. ``NaN`` is no JSON,
and DuckDB's functions take it for a number, so it is looked for apart.
"""

from pathlib import Path

import duckdb

from tests.benchmarks.contestants.contestant import BRONZE, GOLD, SILVER, Place, Stop, files

SHAPE = (
    '{{"event_id":"VARCHAR","device_id":"VARCHAR","signal":"VARCHAR","value":"DOUBLE",'
    '"event_at":"VARCHAR","meta":{{"firmware":"VARCHAR","seq":"BIGINT"}}}}'
)
JUDGED = f"""
    CREATE OR REPLACE TEMP TABLE judged AS
    WITH texts AS (
      SELECT _partition, _offset, _arrived_at, _message_key, _payload, {{order}} AS _order, try(decode(_payload)) AS text
      FROM {{records}}),
    objects AS (
      SELECT *, CASE WHEN json_valid(text) AND text LIKE '{{{{%' THEN text::JSON END AS object FROM texts),
    fields AS (
      SELECT *, json_transform(object, '{SHAPE}') AS own, json_type(object, '$.value') AS value_is,
        json_type(object, '$.event_at') AS event_at_is, json_type(object, '$.meta') AS meta_is
      FROM objects),
    typed AS (
      SELECT *, CASE WHEN event_at_is = 'VARCHAR' THEN TRY_CAST(own.event_at AS TIMESTAMPTZ) END AS event_at FROM fields)
    SELECT own.event_id, own.device_id, own.signal, TRY_CAST(own.value AS DECIMAL(14, 4)) AS value, event_at,
      own.meta.firmware AS firmware, own.meta.seq AS seq, _partition, _offset, _arrived_at, _message_key, _payload, _order,
      CASE
        WHEN object IS NULL OR isnan(own.value) THEN 'malformed'
        WHEN value_is NOT IN ('DOUBLE', 'BIGINT', 'UBIGINT', 'NULL') OR event_at_is NOT IN ('VARCHAR', 'NULL')
          OR meta_is NOT IN ('OBJECT', 'NULL') OR (event_at_is = 'VARCHAR' AND event_at IS NULL) THEN 'wrong_type'
        WHEN own.event_id IS NULL THEN 'missing:event_id'
        WHEN own.device_id IS NULL THEN 'missing:device_id'
        WHEN own.signal IS NULL THEN 'missing:signal'
        WHEN own.value IS NULL THEN 'missing:value'
        WHEN event_at IS NULL THEN 'missing:event_at'
        WHEN NOT CASE own.signal
          WHEN 'temperature' THEN own.value BETWEEN -90 AND 150
          WHEN 'humidity' THEN own.value BETWEEN 0 AND 100
          WHEN 'battery' THEN own.value BETWEEN 0 AND 100
          WHEN 'pressure' THEN own.value BETWEEN 300 AND 1200
          WHEN 'vibration' THEN own.value BETWEEN 0 AND 1000
          ELSE true END THEN 'implausible:value'
        WHEN event_at < _arrived_at - INTERVAL 1 HOUR THEN 'late'
        WHEN event_at > _arrived_at + INTERVAL 5 MINUTE THEN 'early'
      END AS reason
    FROM typed
"""
"""Each record of a relation with its fields, or with the reason why it is no reading."""

FIRST_COPIES = """
    SELECT event_id, device_id, signal, value, event_at, firmware, seq, _partition, _offset, _arrived_at
    FROM judged WHERE reason IS NULL
    QUALIFY row_number() OVER (PARTITION BY event_id ORDER BY _order, _arrived_at, _partition, _offset) = 1
"""
HELD = "SELECT reason, event_at, _partition, _offset, _arrived_at, _message_key, _payload FROM judged WHERE reason IS NOT NULL"
REASONS = "SELECT reason, count(*) FROM judged WHERE reason IS NOT NULL GROUP BY ALL"
WINDOWS = """
    SELECT device_id, signal, time_bucket(INTERVAL 10 MINUTE, event_at) AS window_from,
      time_bucket(INTERVAL 10 MINUTE, event_at) + INTERVAL 10 MINUTE AS window_until, count(*) AS readings,
      min(value) AS min_value, max(value) AS max_value, avg(value) AS avg_value, quantile_disc(value, 0.95) AS p95_value
    FROM read_parquet($files) GROUP BY ALL
"""
ZSTD = "FORMAT parquet, COMPRESSION zstd"


class DuckDb:
    """DuckDB in its process, with two threads."""

    def begin(self, log: Path) -> dict[str, str]:
        """Connect; what does not fit into memory goes to a folder beside the log."""
        self._engine = duckdb.connect()
        self._engine.execute("SET TimeZone = 'UTC'; SET threads = 2; SET memory_limit = '3GB'")
        self._engine.execute(f"SET temp_directory = '{log.with_suffix('.spilled')}'")
        return {"duckdb": duckdb.__version__}

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Compute tables from all that their sources have."""
        for name in names:
            match name:
                case "silver.device_telemetry":
                    self._silver(place)
                case "gold.device_signal_10m":
                    self._write(WINDOWS, place.table(GOLD), files(place.table(SILVER)))

    def follow(self, names: tuple[str, ...], place: Place) -> Stop:
        """Refuse: a batch follows nothing."""
        raise NotImplementedError(names, place)

    def _silver(self, place: Place) -> None:
        records = f"read_parquet({files(place.table(BRONZE))})"
        self._engine.execute(JUDGED.format(records=records, order="_batch"))
        self._write(HELD, place.quarantine)
        self._write(FIRST_COPIES, place.table(SILVER))
        self._engine.execute("DROP TABLE judged")

    def _write(self, query: str, table: str, of: list[str] | None = None) -> None:
        target = Path(table)
        target.mkdir(parents=True, exist_ok=True)
        given = {} if of is None else {"files": of}
        self._engine.execute(f"COPY ({query}) TO '{target}/rows.parquet' ({ZSTD})", given)
