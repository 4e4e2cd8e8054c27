"""A project of one's own with a model: connections to a door, some of which carry data off."""

from pathlib import Path

MODULES = {
    "__init__": "",
    "bronze.__init__": "",
    "bronze.doors": """
from strandline.core.table import Ingested
from strandline.core.topic import Topic

TABLE = Ingested(name="doors", reads=(Topic(name="doors", partitions=1),))
""",
    "silver.__init__": "",
    "silver.doors": """
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from strandline.core.topic import CARRIED
from strandline.core.table import Judged
from strandline_quality.rules import required

from ..bronze import doors as bronze

FIELDS = (
    StructType()
    .add("opening_id", StringType())
    .add("open_for", LongType())
    .add("is_forced", LongType())
    .add("event_at", TimestampType())
)


def doors(events):
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="doors",
    reads=(bronze.TABLE,),
    transform=doors,
    key=("opening_id",),
    event_at="event_at",
    rules=required("opening_id", "event_at"),
)
""",
    "gold.__init__": "",
    "gold.openings": """
from strandline.core.table import Appended

from ..silver import doors
from ..units import seconds


def openings(rows):
    return seconds(rows).select("opening_id", "open_for", "is_forced", "event_at")


TABLE = Appended(
    name="openings",
    reads=(doors.TABLE,),
    transform=openings,
    key=("opening_id", "event_at"),
    event_at="event_at",
    scored_by="forced",
)
""",
    "units": """
def seconds(rows):
    return rows
""",
    "thresholds": """
LEAST = 10
""",
    "models.__init__": "",
    "models.forced": """
from strandline.core.model import Demand, Feature, Logistic, Model

from ..gold import openings
from ..thresholds import LEAST

MODEL = Model(
    name="forced",
    of=openings.TABLE,
    features=(Feature(name="open_for", sql="open_for"),),
    label="is_forced = 1",
    estimator=Logistic(),
    check=(Demand(metric="rows", least=LEAST),),
)
""",
}


def made(root: Path, package: str = "house") -> Path:
    """Write the project, and return its folder."""
    for name, text in MODULES.items():
        file = root.joinpath(package, *name.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "strandline.toml").write_text(f'[project]\ntables = "{package}"\n')
    return root
