"""What a payload says beyond the declared fields, kept as it was sent.

A producer adds a field long before anybody declares it. A table that wants to know selects ``rescued(FIELDS)``: the
unknown fields of each row as one JSON object, as text, because rows with maps can neither be compared nor sorted. A
rule says what becomes of such rows (``no_unknown_fields``): counted, held back, or anything between. A table that does
not select it ignores them at no cost; bronze has them.

To make a column of one: declare the field, and ``strandline rebuild``, which reads all of bronze by the code of today.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs.core.parse import STRICT

RESCUED = "_rescued"


def rescued(fields: StructType) -> Column:
    """Return a JSON payload's undeclared fields as text, NULL where there are none; those inside of others are left.

    Args:
        fields: The declared ones.
    """
    whole = F.from_json(F.col("_payload").cast("string"), "map<string,string>", STRICT)
    more = F.map_filter(whole, lambda name, _: ~name.isin(fields.fieldNames()))
    return F.when(F.size(more) > 0, F.to_json(more)).alias(RESCUED)
