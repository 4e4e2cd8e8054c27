"""The formats of a ``query``'s answer: CSV, JSON, Parquet, and a Variant as the JSON that it is."""

import csv
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.cli.verbs.query import Format, chosen, deliver, shown, stream, text_of
from strandline.core.errors import DefinitionError
from strandline.engine.ask.sql_query import Answer, ask, asked
from strandline.engine.lake.duckdb_table import duck_error, session
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded

ONE = "SELECT event_id, value, event_at FROM silver.device_telemetry ORDER BY event_id"
VARIANT = '{"a":[1,null,"x"],"b":1.5}'


SQL = "SELECT * FROM silver.device_telemetry ORDER BY id"


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with a table that has every odd kind of column, a Variant inside of a struct among them."""
    lake = Lake(tmp_path_factory.mktemp("odd")).open_for_writing()
    rows = spark.sql(f"""
        SELECT 1 AS id, parse_json('{VARIANT}') AS said, TIMESTAMP '2026-01-01 00:00:00' AS at,
            CAST(1.50 AS DECIMAL(10, 2)) AS paid, X'41ff' AS raw,
            named_struct('inner', parse_json('12345678901234567.89')) AS nested
        UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL
    """)  # a constant
    rows.coalesce(1).write.format("delta").save(str(lake.table(silver.TABLE)))
    return lake


@pytest.fixture(scope="module")
def answer(odd: Lake) -> Answer:
    """Return all of that table's rows."""
    return ask(SQL, (silver.TABLE,), odd)


def test_a_variant_is_shown_as_json(answer: Answer) -> None:
    """Not as two runs of bytes, also inside of other values."""
    first, second = shown(answer)

    assert dict(zip(answer.columns, first, strict=True))["said"] == VARIANT
    assert dict(zip(answer.columns, first, strict=True))["nested"] == {
        "inner": "12345678901234567.89"
    }
    assert second == (2, None, None, None, None, None)


@pytest.mark.whole
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


def test_parquet_keeps_the_kinds(odd: Lake, tmp_path: Path) -> None:
    with asked(SQL, (silver.TABLE,), odd) as result:
        stream(result.duck, tmp_path / "a.parquet")

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


def test_types_of_a_parquet_file_are_those_of_the_question(tmp_path: Path) -> None:
    """Not what the rows look like: a column without a value has a type, and so has an answer without a row."""
    sql = """
        SELECT 1::INTEGER AS n, NULL::INTEGER AS none, 1.5::DECIMAL(18, 4) AS paid, []::VARCHAR[] AS tags,
            DATE '2026-01-01' AS day, 1::TINYINT AS tiny, 1::FLOAT AS half
        WHERE {}
    """
    kinds = [
        pa.int32(),
        pa.int32(),
        pa.decimal128(18, 4),
        None,
        pa.date32(),
        pa.int8(),
        pa.float32(),
    ]
    for where in ("true", "false"):
        stream(session().execute(sql.format(where)), tmp_path / "a.parquet")
        schema = pq.read_schema(tmp_path / "a.parquet")
        assert schema.field("tags").type.value_type == pa.string()
        assert [field.type for field in schema if field.name != "tags"] == [
            kind for kind in kinds if kind
        ]


@pytest.mark.whole
def test_an_answer_of_many_rows_is_written_group_by_group(tmp_path: Path) -> None:
    """Its memory is that of a group."""
    stream(session().execute("SELECT range AS n FROM range(300000)"), tmp_path / "a.parquet")

    written = pq.ParquetFile(tmp_path / "a.parquet")
    assert (written.metadata.num_rows, written.num_row_groups >= 3) == (300_000, True)
    assert pq.read_table(tmp_path / "a.parquet")["n"].to_pylist()[-1] == 299_999


def test_a_question_that_fails_half_way_leaves_the_former_file(tmp_path: Path) -> None:
    """The error is the question's, and no draft is left."""
    file = tmp_path / "a.parquet"
    file.write_text("former")
    sql = (
        "SELECT CASE WHEN range < 200000 THEN 1 ELSE error('half-way') END AS n FROM range(300000)"
    )

    with pytest.raises((duck_error(), DefinitionError, OSError), match="half-way") as failed:
        stream(session().execute(sql), file)

    assert "cannot be written" not in str(failed.value)
    assert ([each.name for each in tmp_path.iterdir()], file.read_text()) == (
        ["a.parquet"],
        "former",
    )


@pytest.mark.whole
def test_what_parquet_has_no_type_for_is_cast_by_the_question(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="Parquet has no such column") as refused:
        stream(session().execute("SELECT INTERVAL 1 DAY AS length"), tmp_path / "a.parquet")

    assert "length::VARCHAR" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [("--json",), ("--to", "a.parquet")])
def test_two_columns_of_one_name_are_not_one(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """CSV has both; JSON would keep the last."""
    monkeypatch.chdir(tmp_path)
    sql = "SELECT a.event_id, b.event_id FROM silver.device_telemetry a JOIN silver.device_telemetry b USING (event_at)"
    refused = strandline("query", sql, *words, "--lake", filled)

    assert refused.code == 2
    assert "two columns of the answer are called event_id" in refused.err
    assert "AS event_id_2" in refused.err
    assert succeeded("query", sql, "--format", "csv", "--lake", filled).out.startswith(
        "event_id,event_id\n"
    )


def test_a_number_that_json_has_not_is_its_name() -> None:
    """A reader of JSON that is strict refuses NaN and all that is around it."""
    row = (float("nan"), float("inf"), [-float("inf"), 1.5], {"a": float("nan")})
    text = text_of(Answer(("n", "i", "l", "s"), (row,)), Format.JSON)

    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert json.loads(text, parse_constant=refuse) == [
        {"n": "NaN", "i": "Infinity", "l": ["-Infinity", 1.5], "s": {"a": "NaN"}}
    ]
