"""The tables of NEXMark (tests/benchmarks/nexmark/project), as `strandline run` runs them.

The process that works for it has the project in its environment, so that the catalog has its tables and no others.
"""

import json
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.core.stateful import AvailableNow
from strandline.core.table import Ingested
from strandline.engine.flow.runner import run
from strandline.engine.lake.lake import Lake
from tests.benchmarks.contestants.contestant import Place
from tests.benchmarks.contestants.strandline import Strandline, site_of
from tests.benchmarks.nexmark import as_one_plan

ONE_PLAN = "as one plan"
"""What is asked for in place of a table: what Spark says of each query as one plan."""


class Nexmark(Strandline):
    """This engine, with those tables."""

    def begin(self, log: Path) -> dict[str, str]:
        """Start Spark once the project is found: its workers have the search path of this process."""
        catalog.tables()
        return super().begin(log)

    def catch_up(self, names: tuple[str, ...], place: Place) -> None:
        """Bring tables to where their sources end."""
        for name in names:
            if name == ONE_PLAN:
                spark = SparkSession.getActiveSession()
                assert spark is not None
                found = as_one_plan.verdicts(spark, place.root)
                (Path(place.root) / "as_one_plan.json").write_text(json.dumps(found))
            else:
                self._run(name, place)

    def _run(self, name: str, place: Place) -> None:
        table, lake = catalog.find(name), Lake(place.root)
        if isinstance(table, Ingested):  # topics of one name for each number of events
            named = (replace(each, name=f"{each.name}{place.topic}") for each in table.reads)
            table = replace(table, reads=tuple(named))
        run(table, AvailableNow(), lake, site=site_of(place))
