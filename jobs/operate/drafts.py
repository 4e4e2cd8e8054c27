"""The drafts of a new table: each runs as it is, and passes its own test and the linter.

They are templates of the standard library: a draft has names to fill in, no loops or conditions, and Python's braces.
A project of one's own has the same, which import the engine's public interface and its own package.
"""

import ast
import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template

from infra.home import ROOT as CLONE
from jobs import catalog
from jobs.core.errors import DefinitionError
from jobs.core.kind import Layer
from jobs.core.table import Table
from jobs.project import is_example, package, project

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def source(name: str, layers: set[Layer]) -> Table:
    """Return the table that a new one is to read.

    Raises:
        DefinitionError: It is of another layer.
    """
    found = catalog.find(name)
    if found.layer not in layers:
        wanted = " or ".join(sorted(layers, reverse=True))
        raise DefinitionError(
            f"{found.id} is {found.layer}; such a table reads {wanted}",
            hint=f"name a {wanted} table: `strandline tables` lists them.",
            table=found.id,
        )
    return found


def write(
    layer: Layer, name: str, drafts: tuple[str, str], facts: dict[str, str]
) -> Iterator[Path]:
    """Write the module and the test of a new table, and yield the path of each within the project.

    Args:
        layer: Its layer.
        name: Its name.
        drafts: The module and the test, to be filled with facts.
        facts: What the drafts leave open.

    Raises:
        DefinitionError: The name cannot be that of a table, or a file is there already or cannot be written.
    """
    module, test = drafts
    if NAME.fullmatch(name) is None:
        raise DefinitionError(
            f"{name!r} is no name for a table",
            hint="write it in small letters, digits and single underscores, such as orders_10m.",
            name=name,
        )
    if keyword.iskeyword(name) or hasattr(builtins, name):
        raise _taken(name, "a word of Python's own")
    if not is_example():
        module, test = of_a_project(module), of_a_project(test)
    facts = {**facts, "name": name, "package": package()}
    module, test = (Template(draft).substitute(facts) for draft in (module, test))
    if max(Counter(_bound(module))[name], Counter([*_bound(test), *_given(test)])[name]) > 1:
        raise _taken(name, "a name that its module or its test needs for something else")
    yield from put(
        root(),
        {
            Path(*package().split("."), layer, f"{name}.py"): module,
            Path("tests", layer, f"test_{name}.py"): test,
        },
    )


def root() -> Path:
    """Return the folder of the project, or of the clone."""
    found = project()
    return found.root if found else CLONE


def put(into: Path, texts: Mapping[Path, str]) -> Iterator[Path]:
    """Write files into a folder, none of which is there, and yield the path of each.

    Raises:
        DefinitionError: One is there already, or cannot be written.
    """
    for path in texts:
        if (into / path).exists():
            raise DefinitionError(
                f"{path} exists already",
                hint="choose another name, or change that file.",
                file=str(into / path),
            )
    for path, text in texts.items():
        try:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_text(text)
        except OSError as error:
            raise DefinitionError(
                f"{into / path} cannot be written: {error.strerror}",
                hint="run it in a project of your own (`strandline init`), or in a clone of the engine.",
                file=str(into / path),
            ) from error
        yield path


def _taken(name: str, why: str) -> DefinitionError:
    return DefinitionError(
        f"{name!r} is no name for a table: it is {why}",
        hint=f"choose another name, such as {name}_10m.",
        name=name,
    )


def _bound(text: str) -> Iterator[str]:
    """Yield each name that a module binds, once per binding."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name for each in node.names)
        elif isinstance(node, ast.FunctionDef):
            yield node.name


def _given(text: str) -> Iterator[str]:
    """Yield the fixtures that the tests of a module use."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg):
            yield node.arg


TOPIC = '''"""FILL IN: what the records of this topic are, as received.

Grain: one row a Kafka record.
Reads: topic $topic. Read by: silver.$name.
Late data: bronze has no time but the arrival.
"""

from jobs.core.table import Ingested
from jobs.core.topic import Topic

TABLE = Ingested(
    name="$name",
    reads=(Topic(name="$topic"),),
)
'''

TOPIC_TEST = '''"""bronze.$name is as received."""

from jobs.bronze.$name import TABLE


def test_it_reads_its_topic_and_changes_nothing() -> None:
    """Bronze is as received; everything else can be computed again from it."""
    assert [topic.name for topic in TABLE.topics] == ["$topic"]
'''

SILVER = '''"""FILL IN: what a row is.

Grain: FILL IN: one row an event, by its own id.
Reads: bronze.$source. Read by: FILL IN.
Late data: up to an hour; later rows, and rows of clocks that run ahead, go to the quarantine.
"""

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType, TimestampType

from jobs.bronze import $source as bronze
from jobs.core.received import CARRIED
from jobs.core.table import Judged
from quality.rules import required

# FILL IN: the share of a batch that may break a rule; beyond it nothing of the batch is published.
MAX_FAILED = 0.2

# FILL IN: the fields of a payload; what is not declared is not read.
FIELDS = StructType().add("event_id", StringType()).add("event_at", TimestampType())


def $name(events: DataFrame) -> DataFrame:
    """Read each event's payload."""
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="$name",
    reads=(bronze.TABLE,),
    transform=$name,
    key=("event_id",),
    event_at="event_at",
    rules=required("event_id", "event_at", max_failed=MAX_FAILED),
)
'''

SILVER_TEST = '''"""silver.$name takes rows that are complete, of the declared types, in time, and new."""

from pyspark.sql import SparkSession

from jobs.silver.$name import TABLE
from tests.support.read import read

CLEAN = b'{"event_id": "x1", "event_at": "2026-11-20T08:15:30Z"}'


def test_a_clean_payload_is_a_row(spark: SparkSession) -> None:
    """Field by field, so that a swapped name is seen."""
    (row,) = read(spark, TABLE, CLEAN)

    assert row == {"_problem": "-", "event_id": "x1", "event_at": "08:15:30"}
'''

GOLD = '''"""FILL IN: what question this answers.

Grain: FILL IN: one row a $key and window of ten minutes of event time.
Reads: $layer.$source. Read by: FILL IN.
Late data: FILL IN: when a window is emitted, and what happens to it afterwards.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.core.table import $kind
from jobs.$layer import $source

WINDOW = "10 minutes"


def $name(rows: DataFrame) -> DataFrame:
    """FILL IN: count the rows of each $key and window."""
    windows = rows.groupBy("$key", F.window("$event_at", WINDOW))
    return windows.agg(F.count("*").alias("events")).select(
        "$key",
        F.col("window.start").alias("window_from"),
        F.col("window.end").alias("window_until"),
        "events",
    )


TABLE = $kind(
    name="$name",
    reads=($source.TABLE,),
    transform=$name,
    key=("$key", "window_from"),
    window=WINDOW,
    window_from="window_from",
    closes_at="window_until",
)
'''

GOLD_TEST = '''"""gold.$name."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.gold.$name import $name


def test_rows_of_one_window_are_counted_together(spark: SparkSession) -> None:
    """The end of a window belongs to the next one."""
    moments = [datetime(2026, 1, 1, 8, minute, tzinfo=UTC) for minute in (0, 9, 10)]
    rows = spark.createDataFrame(
        [("a", moment) for moment in moments], "$key string, $event_at timestamp"
    )

    found = $name(rows).orderBy("window_from").collect()

    assert [row["events"] for row in found] == [2, 1]
'''


INSTEAD = (
    (
        """from jobs.core.table import Ingested
from jobs.core.topic import Topic
""",
        """from strandline import Ingested, Topic
""",
    ),
    (
        """
from jobs.bronze import $source as bronze
from jobs.core.received import CARRIED
from jobs.core.table import Judged
from quality.rules import required
""",
        """from strandline import CARRIED, Judged, required

from $package.bronze import $source as bronze
""",
    ),
    (
        """
from jobs.core.table import $kind
from jobs.$layer import $source
""",
        """from strandline import $kind

from $package.$layer import $source
""",
    ),
    (
        """
from jobs.silver.$name import TABLE
from tests.support.read import read
""",
        """from strandline import judge

from $package.silver.$name import TABLE
""",
    ),
    (
        """    (row,) = read(spark, TABLE, CLEAN)

    assert row == {"_problem": "-", "event_id": "x1", "event_at": "08:15:30"}
""",
        """    (row,) = judge(spark, TABLE, CLEAN, arrived_at=datetime(2026, 11, 20, 9, tzinfo=UTC))

    assert row["reasons"] is None
    assert row["event_id"] == "x1"
""",
    ),
    (
        """new.\"\"\"

from pyspark.sql import SparkSession
from strandline import judge
""",
        """new.\"\"\"

from datetime import UTC, datetime

from pyspark.sql import SparkSession
from strandline import judge
""",
    ),
    ("from jobs.", "from $package."),
)
"""Parts of a draft, and what is in their place; the last is for tests, which import their table alone."""


def of_a_project(draft: str) -> str:
    """Return a draft as a project of one's own has it."""
    for part, instead in INSTEAD:
        draft = draft.replace(part, instead)
    return draft
