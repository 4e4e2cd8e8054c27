"""One line of comma-separated cells to columns; and payloads that are kept as bytes.

Why every cell is read as text first: with types in the schema ``from_csv`` makes a cell that it cannot read and
a line of the wrong length look alike. When all cells are text, only the line's shape can be wrong (``malformed``), and
a cell that is no number or moment is ``wrong_type``.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DecimalType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from strandline.core.errors import DefinitionError
from strandline.core.formats.parse import CORRUPT, exactly, is_moment

OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
MARKS = "[\r\n\x00\ufeff]"
"""Characters that a single line cannot hold: line ends, after which Spark would not read, a zero byte, a byte-order mark."""


def parse_csv(events: DataFrame, fields: StructType) -> DataFrame:
    """Add each declared field as a column, and ``_problem``: NULL, ``malformed`` or ``wrong_type``.

    Args:
        events: Rows of bronze.
        fields: The cells in their order; an empty one is NULL.

    Raises:
        DefinitionError: A field is no single cell.
    """
    for field in fields:
        if isinstance(field.dataType, StructType):
            raise DefinitionError(
                f"field {field.name} is nested, and a line of cells is flat",
                hint="declare one field a cell, and nest them in the table's function.",
                field=field.name,
            )
    texts = StructType([StructField(f.name, StringType()) for f in fields])
    watched = texts.add(CORRUPT, StringType()).simpleString().removeprefix("struct<")[:-1]
    line = F.coalesce(F.col("_payload").cast("string"), F.lit(""))
    cells = events.withColumn("_cells", F.from_csv(line, watched.replace(":", " "), OPTIONS))
    values = {f.name: _typed(F.col(f"_cells.`{f.name}`"), f.dataType) for f in fields}
    parsed = cells.withColumn("_line", line).withColumns(values)
    is_line = (
        F.col(f"_cells.{CORRUPT}").isNull()
        & (F.length("_line") > 0)
        & ~F.col("_line").rlike(MARKS)
        & F.is_valid_utf8("_line")
    )
    has_wrong_type = F.lit(False)
    for f in fields:
        has_wrong_type |= F.col(f"_cells.`{f.name}`").isNotNull() & F.col(f.name).isNull()
    problem = F.when(~F.coalesce(is_line, F.lit(False)), F.lit("malformed")).when(
        has_wrong_type, F.lit("wrong_type")
    )
    return parsed.withColumn("_problem", problem).drop("_cells", "_line")


def parse_raw(events: DataFrame, fields: StructType) -> DataFrame:
    """Add the payload itself under the one declared name.

    Raises:
        DefinitionError: There is not exactly one field, or it is not binary.
    """
    if [f.dataType for f in fields] != [BinaryType()]:
        raise DefinitionError(
            "raw payloads are one binary field",
            hint='declare StructType().add("payload", BinaryType()).',
        )
    (field,) = fields
    return events.withColumn(field.name, F.col("_payload")).withColumn(
        "_problem", F.when(F.col("_payload").isNull(), F.lit("malformed"))
    )


def _typed(cell: Column, kind: DataType) -> Column:
    match kind:
        case StringType():
            return cell
        case TimestampType():
            return F.when(is_moment(cell), cell.try_cast(kind))
        case DecimalType():
            return exactly(cell, kind)
        case _:
            return cell.try_cast(kind)
