"""An Iceberg REST catalog that shows tables: Iceberg's metadata over the files that Delta's log names, none of which is written again.

A version of a table becomes a snapshot, in one transaction with the properties that say which version that is. Where files only came, their
entries are appended; where files went as well (a repair, a promotion, ``forget``, files that were put together), what the catalog
has is compared with what the table has. Columns are found by their names, because the files have no numbers of columns
(``schema.name-mapping.default``); a column that is not shown keeps its name there, with a number that no schema has. When a column is
masked that was shown, all files are listed anew, without its smallest and largest values, and the snapshots go by which it could still
be read.

``gc.enabled`` is false in each table: no engine may delete files of the lake, whatever it is asked to purge. What Iceberg itself
has written grows not: a few snapshots are kept, and the files of older ones are removed, because only this writes the table.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzType,
)
from requests import RequestException, Response, Session, Timeout

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.kind import in_utc
from strandline.engine.lake.commit.compact import open_file
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.publish.catalogs import Position, Shown, refuse_of_before, short
from strandline.engine.runtime.settings import S3A
from strandline.engine.runtime.webhook import within

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table import Transaction

NAME = "iceberg"
WAITS = 30.0
"""Seconds that a request may take: without a bound one that is never answered would hold the sync for ever."""

POSITION = "strandline.position"
NAMES = "schema.name-mapping.default"
OURS = {
    "gc.enabled": "false",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}
KEPT = 10
"""Snapshots that a table keeps; twice as many are there before the older ones go."""

MANIFESTS = 100
"""Manifests of a snapshot, each of them a file that a reader opens, with which all files are listed anew."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CUT = timedelta(milliseconds=1)
"""Delta cuts the times of its statistics to milliseconds."""


class _Rest(RestCatalog):
    """A client whose requests end, and go to the address that was named and to no other."""

    def _config_headers(self, session: Session) -> None:
        """Also this, before the session is asked for anything: the first request may send a secret for a token."""
        super()._config_headers(session)
        session.max_redirects = 0  # the secret would go along
        session.request = _ending(session.request)  # type: ignore[method-assign]  # the library has no setting


def _ending(ask: Callable[..., Response]) -> Callable[..., Response]:
    """Return requests that end however slowly an answer comes."""

    @wraps(ask)
    def asked(*args: Any, **words: Any) -> Response:  # noqa: ANN401  # handed on as they are
        found = within(WAITS, lambda: ask(*args, **{**words, "timeout": WAITS}))
        if isinstance(found, TimeoutError):
            raise Timeout(str(found)) from found  # as the client knows it
        if isinstance(found, Exception):
            raise found
        return found

    return asked


class IcebergCatalog:
    """An Iceberg REST catalog."""

    name = NAME
    follows_log = False

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        """Know where it is; it is asked at the first table.

        Args:
            address: Its address.
            options: Properties of pyiceberg's client: token, credential, warehouse, and of its files (s3.endpoint, …).
        """
        self.place = address
        self._options = options
        # Server and client both remove old metadata; who comes second would warn of each file.
        logging.getLogger("pyiceberg.catalog").setLevel(logging.ERROR)

    def show(self, shown: Shown) -> bool:
        """See ``Catalog``."""
        with _explained(self.place):
            table = self._table(shown)
            old = _showing(table, shown.position.hidden)
            if _position(table) == shown.position and not (old and shown.files):
                return False
            if not self._moved(table, shown):  # a column has a type that no former one can become
                self._client.drop_table((shown.layer, shown.name))
                self._moved(self._table(shown), shown)
            return True

    def drop(self, layer: str, name: str, lake: str) -> bool:
        """See ``Catalog``."""
        with _explained(self.place):
            try:
                table = self._client.load_table((layer, name))
            except (NoSuchTableError, NoSuchNamespaceError):
                return False
            position = _position(table)
            if position is None or position.lake != lake:
                return False
            self._client.drop_table((layer, name))  # never purged: its files are the lake's
            _remove(table, _metadata_of(table, [s.snapshot_id for s in table.metadata.snapshots]))
            return True

    @cached_property
    def _client(self) -> RestCatalog:
        return _Rest("strandline", **{"uri": self.place, **self._options})

    def _table(self, shown: Shown) -> "IcebergTable":
        """Return the table, which is created where it is missing.

        Raises:
            DefinitionError: One of another origin has its name.
        """
        identifier = (shown.layer, shown.name)
        with suppress(NoSuchTableError, NoSuchNamespaceError):
            found: IcebergTable = self._client.load_table(identifier)
            known = _position(found)
            if known is None or known.lake != shown.position.lake:
                whose = f"the lake {known.lake}" if known else "another origin"
                raise DefinitionError(
                    f"{self.place} has a table {shown.layer}.{shown.name} of {whose}",
                    hint="publish each lake to a warehouse of its own, or drop that table there.",
                )
            return found
        self._client.create_namespace_if_not_exists(shown.layer)
        nothing = Position(lake=shown.position.lake, table="", version=-1, mark="")
        made: IcebergTable = self._client.create_table(
            identifier,
            schema=_columns(shown),
            properties={**OURS, POSITION: nothing.text()},
        )
        return made

    def _moved(self, table: "IcebergTable", shown: Shown) -> bool:
        """Show the version in one transaction; return False where its columns cannot become what they are now."""
        before = _position(table)
        hidden = shown.position.hidden
        is_crowded = len(_manifests(table)) > MANIFESTS or bool(_showing(table, hidden))
        came = None if is_crowded else shown.came_since(before)
        if came is not None:
            add, gone = came, dict[str, DataFile]()
        else:
            have = _files(table)
            wanted = shown.files
            gone = {f: each for f, each in have.items() if is_crowded or f not in wanted}
            add = {f: each for f, each in wanted.items() if is_crowded or f not in have}
        refuse_of_before(f"{shown.layer}.{shown.name}", sorted(add))
        change = table.transaction()
        try:
            _shape(change, shown)
        except ValidationError:
            return False
        _describe(change, shown)
        _list(change, shown, add, [*gone.values()])
        done = change.commit_transaction()
        _expire(done, _showing(done, hidden))
        return True


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Say what an error of the catalog means.

    Raises:
        DefinitionError: It refuses who asks or what it is sent, or what is there is no such catalog.
        TransientError: It is away, or another writer was faster.
    """
    try:
        yield
    except LakeError:
        raise
    except (UnauthorizedError, ForbiddenError, OAuthError) as error:
        raise DefinitionError(
            f"the catalog {place} refuses: {short(error)}",
            hint="set the credentials in STRANDLINE_ICEBERG_OPTIONS.",
        ) from error
    except (
        CommitFailedException,
        NoSuchTableError,
        NoSuchNamespaceError,
        TableAlreadyExistsError,
        NamespaceAlreadyExistsError,
    ) as error:
        raise TransientError(
            f"another writer changed a table of {place} meanwhile: {short(error)}",
            hint="the next sync goes on; let nothing else write these tables.",
        ) from error
    except BadRequestError as error:
        raise DefinitionError(
            f"the catalog {place} does not take a table: {short(error)}",
            hint="the table stays as it is there; streams go on.",
        ) from error
    except (RequestException, RESTError) as error:
        raise TransientError(
            f"the catalog {place} does not answer: {short(error)}",
            hint="streams go on; the next sync brings what it lacks.",
        ) from error
    except FileNotFoundError as error:
        raise DefinitionError(
            f"a file that the catalog {place} has written for itself is gone: {short(error)}",
            hint="`strandline catalog drop TABLE`, and the next sync makes the table there anew.",
        ) from error
    except Exception as error:
        # Its client reads HTML, half a JSON and unknown types by a dozen kinds of errors, and maintenance must not end by one.
        raise DefinitionError(
            f"what the catalog {place} answers is not understood: {type(error).__name__}: {short(error)}",
            hint="STRANDLINE_ICEBERG is the address of an Iceberg REST catalog, without its /v1.",
        ) from error


def _position(table: "IcebergTable") -> Position | None:
    """Return what a table shows; None for one that no lake has published."""
    text = table.properties.get(POSITION)
    return None if text is None else Position.parsed(text)


def _columns(shown: Shown) -> pa.Schema:
    """Return the columns that the table has, those that are not shown included."""
    return pa.schema(opened(shown.path, shown.position.version).schema().to_arrow())


def _shape(change: "Transaction", shown: Shown) -> None:
    """Give the table the columns that are shown, and keep in mind the names of those that are not."""
    metadata = change.table_metadata
    if metadata.name_mapping() is None:
        change.set_properties({NAMES: metadata.schema().name_mapping.model_dump_json()})
    mapped = change.table_metadata.name_mapping()
    known = {name for each in mapped or () for name in each.names}
    own = _columns(shown)
    hidden = shown.position.hidden
    with change.update_schema() as update:
        update.union_by_name(
            pa.schema([each for each in own if each.name not in hidden or each.name not in known])
        )
    there = [each.name for each in change.table_metadata.schema().fields]
    gone = [name for name in there if name in hidden or name not in own.names]
    if gone:
        with change.update_schema(allow_incompatible_changes=True) as update:
            for name in gone:
                update.delete_column((name,))


def _describe(change: "Transaction", shown: Shown) -> None:
    """Say of the table what is said of it, and which version it shows."""
    words = shown.position.words
    known = change.table_metadata.properties
    if lacking := [each for each in ("comment", "owner") if each in known and each not in words]:
        change.remove_properties(*lacking)
    change.set_properties({**OURS, **words, POSITION: shown.position.text()})


def _list(
    change: "Transaction",
    shown: Shown,
    add: Mapping[str, Mapping[str, Any]],
    gone: Sequence[DataFile],
) -> None:
    """Make a snapshot of the files that came and went; none where there are none."""
    if not add and not gone:
        return
    fields = {
        each.name: (each.field_id, each.field_type)
        for each in change.table_metadata.schema().fields
    }
    more = {"strandline.version": str(shown.position.version)}
    snapshot = change.update_snapshot(snapshot_properties=more)
    with snapshot.overwrite() if gone else snapshot.fast_append() as update:
        for file, body in sorted(add.items()):
            update.append_data_file(_entry(file, body, fields))
        for each in gone:
            update.delete_data_file(each)


def _entry(file: str, body: Mapping[str, Any], fields: Mapping[str, tuple[int, Any]]) -> DataFile:
    """Return what Iceberg says of a file, from what Delta's log says: it is not opened."""
    stats = json.loads(body.get("stats") or "{}")
    rows = stats.get("numRecords")
    if rows is None:  # another tool wrote it; readers take a file of no rows for empty
        rows = open_file(Place.of(file)).metadata.num_rows
    parts = {name: value for name, value in (body.get("partitionValues") or {}).items() if value}
    ends = {
        "lower_bounds": _bounds({**(stats.get("minValues") or {}), **parts}, fields, -CUT),
        "upper_bounds": _bounds({**(stats.get("maxValues") or {}), **parts}, fields, CUT),
    }
    nulls = stats.get("nullCount") or {}
    counted = {
        fields[name][0]: int(count)
        for name, count in nulls.items()
        if name in fields and isinstance(count, int)
    }
    made = DataFile.from_args(
        _table_format_version=2,
        content=DataFileContent.DATA,
        file_path=_uri(file),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=int(body["size"]),
        column_sizes={},
        value_counts=dict.fromkeys(counted, rows),
        null_value_counts=counted,
        nan_value_counts={},
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        **ends,
    )
    made.spec_id = 0
    return made


def _uri(file: str) -> str:
    """Return a file as Iceberg's readers name it."""
    return file.replace(f"{S3A}://", "s3://", 1) if "://" in file else f"file://{file}"


def _bounds(
    values: Mapping[str, Any], fields: Mapping[str, tuple[int, Any]], more: timedelta
) -> dict[int, bytes]:
    """Return the smallest or the largest value of each column whose statistic is one; readers may skip a file by it."""
    found = {}
    for name, value in values.items():
        number, kind = fields.get(name, (0, None))
        known = None if kind is None else _value(kind, value, more)
        if known is not None:
            found[number] = to_bytes(kind, known)
    return found


def _value(kind: PrimitiveType, value: Any, more: timedelta) -> Any:  # noqa: ANN401  # a value of JSON
    """Return a value of a statistic, or of a partition, as Iceberg has it; None where it is none that is exact."""
    try:
        match kind:
            case IntegerType() | LongType():
                return int(value)
            case DateType():
                return (date.fromisoformat(value) - EPOCH.date()).days
            case TimestamptzType():
                at = in_utc(datetime.fromisoformat(value))  # of a folder it has no zone
                return (at + more - EPOCH) // timedelta(microseconds=1)
            case StringType():
                return str(value)
            case _:
                return None
    except (ValueError, TypeError, OverflowError):  # a year that Python has no date for
        return None


def _manifests(table: "IcebergTable") -> list[Any]:
    snapshot = table.current_snapshot()
    return [*snapshot.manifests(table.io)] if snapshot else []


def _files(table: "IcebergTable") -> dict[str, DataFile]:
    """Return the files that the catalog shows, by their paths in the lake."""
    entries = (
        entry.data_file
        for manifest in _manifests(table)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    )
    return {_path(each.file_path): each for each in entries}


def _path(uri: str) -> str:
    return (
        uri.removeprefix("file://") if uri.startswith("file:") else uri.replace("s3:", f"{S3A}:", 1)
    )


def _showing(table: "IcebergTable", hidden: Sequence[str]) -> set[int]:
    """Return the snapshots by which a column can be read that is hidden now: a reader of one sees the columns that it had."""
    secret = {*hidden}
    schemas = {
        each.schema_id
        for each in table.metadata.schemas
        if secret.intersection(field.name for field in each.fields)
    }
    return {each.snapshot_id for each in table.metadata.snapshots if each.schema_id in schemas}


def _expire(table: "IcebergTable", never: Collection[int]) -> None:
    """Remove snapshots, with the files that Iceberg wrote for them alone: all but the newest, and some that may not be read."""
    known = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
    numbers = [each.snapshot_id for each in known]
    spared = numbers[-KEPT:] if len(known) > 2 * KEPT else numbers
    current = table.metadata.current_snapshot_id
    kept = [each for each in spared if each == current or each not in never]
    old = [each for each in numbers if each not in kept]
    if not old:
        return
    dead = _metadata_of(table, old) - _metadata_of(table, kept)
    table.maintenance.expire_snapshots().by_ids(old).commit()
    _remove(table, dead)


def _metadata_of(table: "IcebergTable", snapshots: Sequence[int]) -> set[str]:
    """Return the lists and manifests of some snapshots."""
    found = set[str]()
    for number in snapshots:
        snapshot = table.metadata.snapshot_by_id(number)
        if snapshot is None:
            continue
        found.add(snapshot.manifest_list)
        with suppress(OSError):  # a sync that was killed has removed them before
            found.update(each.manifest_path for each in snapshot.manifests(table.io))
    return found


def _remove(table: "IcebergTable", files: set[str]) -> None:
    delete: Callable[[str], None] = table.io.delete
    for each in sorted(files):
        with suppress(OSError):
            delete(each)
