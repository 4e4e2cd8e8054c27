"""The engine's public interface; the name ``strandline`` leads here (infra/docs/package.md).

A promise of stability: what ``__all__`` names keeps its name, its arguments and its meaning within a major version. A name may
be added, and a function or a kind of table may get an argument with a default. tests/core/api.txt pins names and signatures. All
else of the engine may change with any version: no other module is imported by a project.
"""

from jobs.catalog import tables
from jobs.core.errors import DataError, DefinitionError, LakeError, TransientError
from jobs.core.fold import Fold, Folded, arrival, latest_per_key, time_order
from jobs.core.kind import Emit, Layer
from jobs.core.lateness import Lateness
from jobs.core.model import Clusters, Demand, Feature, Forest, Logistic, Model
from jobs.core.parse import parse_json
from jobs.core.parse_avro import avro
from jobs.core.parse_csv import parse_csv, parse_raw
from jobs.core.parse_debezium import changes_of, debezium
from jobs.core.parse_registered import registered
from jobs.core.received import CARRIED
from jobs.core.record import Record
from jobs.core.rescue import rescued
from jobs.core.stateful import folded
from jobs.core.table import (
    Appended,
    Dimension,
    Ingested,
    Judged,
    Recomputed,
    Table,
    Upserted,
    Windowed,
)
from jobs.core.topic import Topic
from jobs.core.unite import united
from jobs.core.validity import validity
from jobs.core.waiting import Memory
from jobs.core.writer_schema import Format, Reference, WriterSchema
from jobs.engine.runtime.trial import judge, trial_spark
from jobs.engine.trace.lake_reader import lake
from quality.expectations import Within
from quality.rules import (
    OnFail,
    Rule,
    Severity,
    between,
    matches,
    no_unknown_fields,
    not_null,
    one_of,
    required,
)

__all__ = [
    "CARRIED",
    "Appended",
    "Clusters",
    "DataError",
    "DefinitionError",
    "Demand",
    "Dimension",
    "Emit",
    "Feature",
    "Fold",
    "Folded",
    "Forest",
    "Format",
    "Ingested",
    "Judged",
    "LakeError",
    "Lateness",
    "Layer",
    "Logistic",
    "Memory",
    "Model",
    "OnFail",
    "Recomputed",
    "Record",
    "Reference",
    "Rule",
    "Severity",
    "Table",
    "Topic",
    "TransientError",
    "Upserted",
    "Windowed",
    "Within",
    "WriterSchema",
    "arrival",
    "avro",
    "between",
    "changes_of",
    "debezium",
    "folded",
    "judge",
    "lake",
    "latest_per_key",
    "matches",
    "no_unknown_fields",
    "not_null",
    "one_of",
    "parse_csv",
    "parse_json",
    "parse_raw",
    "registered",
    "required",
    "rescued",
    "tables",
    "time_order",
    "trial_spark",
    "united",
    "validity",
]
