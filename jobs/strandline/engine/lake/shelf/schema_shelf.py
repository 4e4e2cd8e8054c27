"""The schemas with which the payloads of a lake were written: a small file for each id of the registry, never changed.

With them the rows of bronze are all that a rebuild needs: next year's asks no registry, which may be gone by then. A file is
written before the rows that need it are committed, so a reader of a row finds its schema.

That the registry did not know an id is kept as well. Otherwise an id that is registered later would make a row of a record
that a stream has quarantined, and a batch over the same log would give another answer than the stream.
"""

from dataclasses import dataclass

from strandline.core.formats.writer_schema import WriterSchema
from strandline.engine.lake.files.place import Place

UNKNOWN = "null"
"""The content of the file of an id that the registry did not know."""

_FOUND: dict[tuple[Place, int], WriterSchema] = {}
"""The schemas that this process has read; a worker of Spark reads each once."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The schemas of a lake; Spark sends it to its Python workers.

    Args:
        place: Their folder.
    """

    place: Place

    def __call__(self, number: int) -> WriterSchema | None:
        """Return the schema of an id; None where the registry did not know it."""
        found = _FOUND.get((self.place, number))
        if found is not None:
            return found
        text = self._file(number).text()
        if text is None or text == UNKNOWN:
            return None
        return _FOUND.setdefault((self.place, number), WriterSchema.of_json(text))

    def has(self, number: int) -> bool:
        """Return whether the registry was asked for an id before."""
        return (self.place, number) in _FOUND or self._file(number).is_file()

    def keep(self, number: int, schema: WriterSchema | None) -> None:
        """Keep what the registry has answered, for ever; the first answer stays."""
        self._file(number).create(UNKNOWN if schema is None else schema.as_json())

    def lend(self, other: "Shelf") -> None:
        """Copy all schemas to the shelf of another lake, such as that of a verification."""
        for name in self.place.names():
            text = (self.place / name).text()
            if text is not None:
                (other.place / name).create(text)

    def _file(self, number: int) -> Place:
        return self.place / f"{number}.json"
