"""The requests to forget that a lake has carried out: a small file each, with hashes and versions, and no word of the request.

It is written before the first row goes, and again when all are gone, so a request that was interrupted is seen. Until the
history of its tables is scrubbed (jobs/strandline/engine/repair/scrub.py), their old files still hold what was forgotten.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime

from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place

FOLDER = "_forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A request that was carried out.

    Args:
        mark: Its hash.
        begun_at: When it began.
        done_at: When all rows were gone; None where it was interrupted.
        versions: For each folder of a table that it concerns, the version up to which the history holds what was forgotten.
        scrubbed_at: When that history was scrubbed; None while it is readable.
    """

    mark: str
    begun_at: str
    done_at: str | None = None
    versions: Mapping[str, int] = field(default_factory=dict)
    scrubbed_at: str | None = None

    @property
    def is_done(self) -> bool:
        """Return whether all rows are gone."""
        return self.done_at is not None

    def is_due(self, before: datetime) -> bool:
        """Return whether its history can be scrubbed: it was done before a moment, and is not scrubbed yet."""
        done = self.done_at is not None and datetime.fromisoformat(self.done_at) <= before
        return done and self.scrubbed_at is None


def requests(lake: Lake) -> list[Forgotten]:
    """Return the requests of a lake, by the name of their file."""
    found = (file_of(lake, name.removesuffix(".json")).text() for name in _folder(lake).names())
    return [_decoded(text) for text in found if text]


def keep(lake: Lake, request: Forgotten) -> None:
    """Write down a request."""
    file_of(lake, request.mark).put(json.dumps(asdict(request), indent=1) + "\n")


def file_of(lake: Lake, mark: str) -> Place:
    """Return the file of a request."""
    return _folder(lake) / f"{mark}.json"


def folder_of(lake: Lake, name: str) -> Place:
    """Return the folder of a table or a quarantine by its name."""
    layer, _, short = name.partition(".")
    return lake.root / layer / short


def _folder(lake: Lake) -> Place:
    return lake.root / FOLDER


def _decoded(text: str) -> Forgotten:
    known = {each.name for each in fields(Forgotten)}
    return Forgotten(**{name: value for name, value in json.loads(text).items() if name in known})
