"""The undeclared fields of a payload, kept beside the row.

A producer adds a field long before it is declared. A table that keeps such fields selects ``rescued(FIELDS)``: the
unknown fields of each row as one JSON object, as text, because rows with maps can neither be compared nor sorted. A
rule decides what happens to such rows (``no_unknown_fields``): counted, held back, or anything between. A table that
does not select it ignores them at no cost; bronze has them as they were sent. Texts, booleans and numbers of up to 17
digits are rescued unchanged; Spark writes a longer number as the double next to it (``12345678901234567.89`` as
``1.2345678901234568E16``) and one that no double holds as ``"Infinity"``. To keep those digits, declare the field as
text, or read the payload in bronze.

To turn such a field into a column, declare it and run ``strandline rebuild``, which reads all of bronze with today's code.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from strandline.core.parse import STRICT

RESCUED = "_rescued"


def rescued(fields: StructType) -> Column:
    """Return a JSON payload's undeclared top-level fields as text, NULL where there are none.

    Args:
        fields: The declared ones.
    """
    whole = F.from_json(F.col("_payload").cast("string"), "map<string,string>", STRICT)
    more = F.map_filter(whole, lambda name, _: ~name.isin(fields.fieldNames()))
    return F.when(F.size(more) > 0, F.to_json(more)).alias(RESCUED)
