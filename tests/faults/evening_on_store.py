"""An evening on call whose lake is on an object store: what people type is timed, because a store that is away holds who asks it.

The metrics are those of a real `strandline metrics`, as Prometheus gets them; verbs are programs of their own.
"""

import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dagster import SensorResult, build_sensor_context
from prometheus_client.parser import text_string_to_metric_families as families

from strandline.engine.lake.place import Place
from strandline.engine.runtime import processes
from strandline.engine.service.background_stream import Always
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import LakeResource
from strandline_dagster.vitals import look_whether_it_is_well
from tests.cli import typed
from tests.cli.typed import Answer
from tests.faults.evening import Evening, Figures
from tests.faults.lives import running
from tests.support.s3_server import Running

ASKS = ("ledger", "doctor", "logs")
"""What is asked beside `status`."""


@contextmanager
def metrics(lake: Place, log: Path) -> Iterator[str]:
    """Serve the metrics of a lake for the length of the block, and yield the address of the page."""
    port = processes.free(0)
    with running("metrics", "--port", port, "--every", "10s", "--lake", lake, log=log):
        yield f"http://127.0.0.1:{port}/metrics"


class EveningOnStore(Evening):
    """The same, on a store that can be killed."""

    def __init__(  # noqa: PLR0913, PLR0917  # its parent's, its store and its metrics
        self,
        lake: Place,
        folder: Path,
        tables: Sequence[str],
        stream: Always,
        store: Running,
        page: str,
    ) -> None:
        """Begin as its parent does.

        Args:
            lake: As there.
            folder: As there.
            tables: As there.
            stream: As there.
            store: The server.
            page: The address of the metrics.
        """
        self.store, self._page, self._seen = store, page, ""
        self._last_well: str | None = None
        super().__init__(lake, folder, tables, stream)
        print(f"when all is level: {self._said()}", flush=True)  # noqa: T201  # what the seconds compare with

    def _asked(self, *words: str) -> Answer:
        """Ask, by a program of its own."""
        return typed.strandline(*words, "--lake", self.lake.root)

    def _of_status(self, status: Answer) -> str:
        """Add what other questions answered, and how long the slowest took."""
        took, codes = dict[str, float](), []
        for verb in ASKS:
            begun = time.monotonic()
            codes.append(f"{verb} {self._asked(verb).code}")
            took[verb] = time.monotonic() - begun
        slowest = max(took, key=lambda verb: took[verb])
        said = f"{', '.join(codes)}, the slowest ({slowest}) in {took[slowest]:.0f} s"
        return f"{super()._of_status(status)}; {said}"

    def _figures(self) -> Figures:
        with urllib.request.urlopen(self._page, timeout=30) as answer:  # noqa: S310  # of this machine
            text = answer.read().decode()
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in families(text)
            for sample in family.samples
        }

    def _well(self) -> str:
        """Return what the sensor of Dagster's first asset answers."""
        context = build_sensor_context(
            instance=self._instance, definitions=DEFINITIONS, cursor=self._last_well
        )
        begun = time.monotonic()
        found = look_whether_it_is_well(context, lake=LakeResource())
        took = time.monotonic() - begun
        if isinstance(found, SensorResult):
            self._last_well = found.cursor
            (answer,) = found.asset_events
            self._seen = str(answer.description)
        return f"{self._seen} ({took:.0f} s)"
