"""The drafts of a new table as a project of one's own has them: they import the engine's public interface, and its own package."""

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
