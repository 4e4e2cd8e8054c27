"""A module is edited where its author would: a line of its fields, its import, the function's selection where that is clear."""

import pytest

from strandline.operate.drafts.module_text import UnclearError, steps, with_field, with_type

HEAD = """from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StringType, StructType
from strandline import CARRIED, Judged, parse_json
"""
ALL = """

def orders(events):
    return parse_json(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())
"""
NAMED = """

def orders(events):
    rows = parse_json(events, FIELDS)
    return rows.select(
        *CARRIED,
        "id",
        F.col("meta.host").alias("host"),
    )
"""
FIELDS = """
ITEM = StructType().add("sku", StringType())
FIELDS = (
    StructType()
    .add("id", StringType())
    .add("items", ArrayType(ITEM))
    .add("meta", StructType().add("host", StringType()))
)
"""
META = '    .add("meta", StructType().add("host", StringType())'


def test_a_field_is_a_line_behind_the_last() -> None:
    """With its type imported; a selection of all fields has it at once."""
    edited = with_field(HEAD + FIELDS + ALL, "paid_at", "TimestampType()")
    assert edited.left == ""
    assert f'{META})\n    .add("paid_at", TimestampType())\n)' in edited.text
    assert "import ArrayType, LongType, StringType, StructType, TimestampType\n" in edited.text
    assert edited.text.endswith(ALL)


def test_a_line_is_one_of_pythons() -> None:
    """A form feed, and what other programs hold for the end of a line, end none."""
    odd = '"""Pages.\x0c\u2028\x85\x1c"""\n\x0c\n' + HEAD
    edited = with_field(odd + FIELDS + ALL, "paid_at", "TimestampType()")
    assert f'{META})\n    .add("paid_at", TimestampType())\n)' in edited.text
    assert edited.text.startswith(odd[: odd.index("from pyspark.sql.types")])


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("meta.port", f'{META}.add("port", LongType()))'),
        ("items[].qty", 'ITEM = StructType().add("sku", StringType()).add("qty", LongType())'),
    ],
)
def test_a_nested_field_is_declared_where_its_record_is(path: str, line: str) -> None:
    """Also where that is a name of its own, within a list; a column as a whole has it at once."""
    edited = with_field(HEAD + FIELDS + ALL, path, "LongType()")
    assert line in edited.text
    assert edited.left == ""


def test_a_function_that_names_its_columns_gets_one_more() -> None:
    """In the line behind the last; of a nested field its author decides how it is called."""
    text = HEAD + FIELDS + NAMED
    edited = with_field(text, "coupon", "StringType()")
    assert '.alias("host"),\n        "coupon",\n    )' in edited.text
    nested = with_field(text, "meta.port", "LongType()")
    assert nested.left == 'select it in the function, such as F.col("meta.port").alias("port")'
    assert '        "port",' not in nested.text


DRAFTED = """
NAMES = {
    "a-b": "a_b",
}


def orders(events):
    names = FIELDS.fieldNames()
    columns = [F.col(f"`{name}`").alias(NAMES.get(name, name)) for name in names]
    rows = parse_json(events, FIELDS).select(*CARRIED, *columns)
    rows = rows.withColumn("day", F.col("at").cast("date"))
    return rows.withColumns(
        {
            "event_at": F.timestamp_micros(F.col("ts")),
        }
    )
"""


def test_a_function_that_takes_its_columns_from_a_list_is_left_as_it_is() -> None:
    """The list of a drafted one is that of all fields: selected once more the column were there twice."""
    edited = with_field(HEAD + FIELDS + DRAFTED, "coupon", "StringType()")
    assert edited.text.endswith(DRAFTED)
    assert '.add("coupon", StringType())' in edited.text
    assert "see that the function of the table selects coupon" in edited.left


@pytest.mark.parametrize("name", ["event_at", "EVENT_AT", "a_b", "day"])
def test_a_field_named_as_a_column_that_is_made_is_left_to_its_author(name: str) -> None:
    """Declared as it is it were there twice, or written over."""
    with pytest.raises(UnclearError, match=f"makes a column {name} itself"):
        with_field(HEAD + FIELDS + DRAFTED, name, "StringType()")
    with pytest.raises(UnclearError, match="makes a column host itself"):
        with_field(HEAD + FIELDS + NAMED, "host", "StringType()")
    assert with_field(HEAD + FIELDS + DRAFTED, f"meta.{name}", "StringType()").text


def test_fields_may_be_a_list() -> None:
    """Of fields that are written out."""
    fields = '\nFIELDS = StructType([StructField("id", StringType())])\n'
    edited = with_field(HEAD + fields + ALL, "n", "LongType()")
    assert 'StructField("id", StringType()), StructField("n", LongType())])' in edited.text
    assert "StringType, StructField, StructType" in edited.text


def test_a_type_is_written_over() -> None:
    """In its place, at any depth."""
    edited = with_type(HEAD + FIELDS + ALL, "meta.host", "DoubleType()")
    assert 'StructType().add("host", DoubleType())' in edited.text
    assert "import ArrayType, DoubleType, LongType" in edited.text


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("`a b`", "own name"),
        ("_payload", "own name"),
        ("id", "declared by now"),
        ("ID", "case alone"),
        ("items.x", "StructType"),
        ("unknown.x", "not written out"),
    ],
)
def test_what_is_unclear_is_left_to_the_author(path: str, says: str) -> None:
    """With a sentence that says what."""
    with pytest.raises(UnclearError, match=says):
        with_field(HEAD + FIELDS + ALL, path, "LongType()")


def test_a_module_of_several_shapes_is_left_to_its_author() -> None:
    """Nothing says in which of them the field is."""
    more = "\n\ndef older(events):\n    return parse_json(events, ITEM)\n"
    with pytest.raises(UnclearError, match="several shapes"):
        with_field(HEAD + FIELDS + ALL + more, "coupon", "StringType()")
    with pytest.raises(UnclearError, match="no parser"):
        with_field(HEAD + ALL.replace("FIELDS)", "made())"), "coupon", "StringType()")


def test_a_path_is_read_as_it_is_written() -> None:
    """Names between backticks may have any sign."""
    assert steps("a.items[].b-c") == ["a", "items", "[]", "b-c"]
    assert steps("labels{}.`x.``y`") == ["labels", "{}", "x.`y"]
