"""New ids of schemas are asked for while bronze takes their payloads in, before the commit.

Why here and not in silver: a record is taken in by one process, once, and that process has the network and the credentials of
sources anyway. What is derived from bronze then needs only the lake: executors, a backfill, a rebuild of next year.

The ids are read from the files that were just written, which are in the page cache, by DuckDB; only those that the lake does
not know yet cost a request. To find the ids of 50,000 records takes 27 ms (tests/benchmarks/registered_payloads.py).
"""

from collections.abc import Sequence
from contextlib import closing

from strandline.core.decode import decoder
from strandline.core.errors import DefinitionError
from strandline.core.parse_registered import HEAD, Registered
from strandline.core.table import Table
from strandline.core.writer_schema import WriterSchema
from strandline.engine.kafka.schema_registry import Registry
from strandline.engine.runtime.settings import settings
from strandline.engine.storage.commit_log import added_file
from strandline.engine.storage.delta_commit import Written
from strandline.engine.storage.duckdb_session import literal
from strandline.engine.storage.duckdb_table import peek_files
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.log_actions import file_of
from strandline.engine.storage.schema_shelf import Shelf
from strandline_infra import extras

AT_ONCE = 1_000
"""Ids that are read at once; a topic full of rubbish may have one in each payload."""

REMEMBERED = 10_000
"""Ids that a stream remembers to have seen, for the same reason; the others are looked up on the shelf."""


class Learner:
    """Learns the schemas of a bronze table's payloads; does nothing for a table whose topics have none."""

    def __init__(self, table: Table, lake: Lake) -> None:
        """Look at the table's topics."""
        self._path = lake.table(table)
        self._shelf = Shelf(lake.schemas)
        self._seen: set[int] = set()
        self._columns: dict[str, list[str]] = {"_payload": [], "_message_key": []}
        for topic in table.topics:
            if isinstance(topic.parse, Registered):
                self._columns["_payload"].append(topic.name)
                if topic.parse.keys:
                    self._columns["_message_key"].append(topic.name)

    def learn(self, written: Written) -> None:
        """Keep the schemas of records that are about to be committed.

        Raises:
            TransientError: The registry does not answer.
            DefinitionError: No registry is known, or a schema cannot be used.
        """
        if written.is_empty:
            return
        files = [file_of(self._path, added_file(each)) for each in written.files]
        for column, topics in self._columns.items():
            after = -1
            while topics and (found := ids_behind(after, files, column, topics)):
                new = [each for each in found if each not in self._seen]
                self._keep([each for each in new if not self._shelf.has(each)])
                self._remember(new)
                after = found[-1]

    def _remember(self, new: Sequence[int]) -> None:
        if len(self._seen) + len(new) > REMEMBERED:
            self._seen.clear()
        self._seen.update(new)

    def _keep(self, numbers: list[int]) -> None:
        if not numbers:
            return
        with closing(_registry(numbers[0])) as registry:
            for number in numbers:
                schema = registry.schema(number)
                if schema is not None:
                    _refuse_unusable(schema)
                self._shelf.keep(number, schema)


def ids_behind(
    after: int, files: Sequence[str], column: str, topics: Sequence[str]
) -> Sequence[int]:
    """Return ids of schemas in files of bronze, in their order, some at a time.

    Args:
        after: The last id of the time before.
        files: The files.
        column: The column with payloads in the wire format.
        topics: The topics whose payloads are.
    """
    of = ", ".join(map(literal, topics))
    rows = peek_files(files, "records").ask(
        f"""
        SELECT DISTINCT ('0x' || hex(array_slice({column}, 2, {HEAD})))::BIGINT AS number
        FROM records
        WHERE _topic IN ({of}) AND octet_length({column}) >= {HEAD}
            AND array_slice({column}, 1, 1) = '\\x00'::BLOB AND number > {after}
        ORDER BY number LIMIT {AT_ONCE}
        """  # noqa: S608  # our own names and numbers
    )
    return [int(str(number)) for (number,) in rows]


def _registry(number: int) -> Registry:
    found = settings()
    if found.schema_registry is None:
        raise DefinitionError(
            f"a record has the schema {number}, which the lake does not know, and no schema registry is named",
            hint="set STRANDLINE_SCHEMA_REGISTRY; nothing was committed.",
            schema=number,
        )
    return Registry(found.schema_registry, found.schema_registry_options)


def _refuse_unusable(schema: WriterSchema) -> None:
    """Refuse a schema from which no decoder can be made; its payloads would end the stream of silver instead.

    Raises:
        DefinitionError: None can be made.
    """
    try:
        decoder(schema)
    except ImportError as error:
        raise DefinitionError(
            f"the library that decodes {schema.kind} is not installed: {error}",
            hint=f"install the extra: {extras.command('registry')}.",
        ) from error
    except Exception as error:  # libraries of three formats raise what they like
        raise DefinitionError(
            f"the registry's schema {schema.number} cannot be used: {error}",
            hint="correct it in the registry, or leave the topic out; nothing was committed.",
            schema=schema.number,
        ) from error
