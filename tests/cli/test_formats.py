"""The formats of a ``query``'s answer: CSV, JSON, Parquet, and a Variant as the JSON that it is."""

import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from jobs.cli.formats import Format, chosen, deliver, shown
from jobs.core.errors import DefinitionError
from jobs.engine.storage.lake import Lake
from jobs.engine.trace.sql_query import Answer, ask
from jobs.silver import device_telemetry as silver
from tests.cli.inside import strandline, succeeded

ONE = "SELECT event_id, value, event_at FROM silver.device_telemetry ORDER BY event_id"
VARIANT = '{"a":[1,null,"x"],"b":1.5}'


@pytest.fixture(scope="module")
def answer(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """Return what a table with every odd kind of column answers, a Variant inside of a struct among them."""
    lake = Lake(tmp_path_factory.mktemp("odd")).open_for_writing()
    rows = spark.sql(f"""
        SELECT 1 AS id, parse_json('{VARIANT}') AS said, TIMESTAMP '2026-01-01 00:00:00' AS at,
            CAST(1.50 AS DECIMAL(10, 2)) AS paid, X'41ff' AS raw,
            named_struct('inner', parse_json('12345678901234567.89')) AS nested
        UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL
    """)  # a constant
    rows.coalesce(1).write.format("delta").save(str(lake.table(silver.TABLE)))
    sql = "SELECT * FROM silver.device_telemetry ORDER BY id"
    return ask(sql, (silver.TABLE,), lake)


def test_a_variant_is_shown_as_json(answer: Answer) -> None:
    """Not as two runs of bytes, also inside of other values."""
    first, second = shown(answer)

    assert dict(zip(answer.columns, first, strict=True))["said"] == VARIANT
    assert dict(zip(answer.columns, first, strict=True))["nested"] == {
        "inner": "12345678901234567.89"
    }
    assert second == (2, None, None, None, None, None)


def test_csv_has_a_line_a_row(answer: Answer, tmp_path: Path) -> None:
    deliver(answer, Format.CSV, tmp_path / "a.csv")

    head, first, second = csv.reader((tmp_path / "a.csv").read_text().splitlines())
    assert head == ["id", "said", "at", "paid", "raw", "nested"]
    assert first[:5] == ["1", VARIANT, "2026-01-01T00:00:00+00:00", "1.50", "A\\xff"]
    assert second == ["2", "", "", "", "", ""]


def test_json_has_a_variant_as_a_value_and_no_number_that_is_not_exact(
    answer: Answer, tmp_path: Path
) -> None:
    deliver(answer, Format.JSON, tmp_path / "a.json")

    first, second = json.loads((tmp_path / "a.json").read_text())
    assert first["said"] == {"a": [1, None, "x"], "b": 1.5}
    assert first["nested"] == {"inner": "12345678901234567.89"}
    assert second["said"] is None


def test_parquet_keeps_the_kinds(answer: Answer, tmp_path: Path) -> None:
    deliver(answer, Format.PARQUET, tmp_path / "a.parquet")

    first, second = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert (first["id"], first["paid"], first["raw"]) == (1, Decimal("1.50"), b"A\xff")
    assert first["at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert first["said"] == VARIANT
    assert second["paid"] is None


def test_a_pipe_gets_csv_and_a_file_the_format_of_its_name(filled: Path, tmp_path: Path) -> None:
    """What is beside the answer goes to the other stream."""
    piped = succeeded("query", ONE, "--format", "csv", "--lake", filled)
    to_file = succeeded("query", ONE, "--to", tmp_path / "a.parquet", "--lake", filled)

    head, first, *_ = piped.out.splitlines()
    assert head == "event_id,value,event_at"
    assert first == "e1,1.5000,2026-11-20T09:00:00+00:00"
    assert (to_file.out, to_file.err) == ("", f"wrote 3 rows to {tmp_path / 'a.parquet'}\n")
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 3


@pytest.mark.parametrize(
    ("wanted", "to", "as_json", "message"),
    [
        (Format.CSV, None, True, "two formats"),
        (Format.PARQUET, None, False, "needs a file"),
        (None, Path("answer.txt"), False, "names no format"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_read(
    wanted: Format | None,
    to: Path | None,
    as_json: bool,  # noqa: FBT001  # a row of a table
    message: str,
) -> None:
    with pytest.raises(DefinitionError, match=message) as refused:
        chosen(wanted, to, as_json=as_json)

    assert refused.value.hint


def test_a_file_that_cannot_be_written_asks_for_another(filled: Path) -> None:
    """The folder is not there."""
    answer = strandline("query", ONE, "--to", "/nowhere/a.csv", "--lake", filled)

    assert answer.code == 2
    assert "/nowhere/a.csv cannot be written" in answer.err
