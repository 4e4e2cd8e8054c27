"""The requests to forget that a lake has carried out: a small file each, with hashes and versions, and no word of the request.

It is written before the first row goes, and again when all are gone, so a request that was interrupted is seen. Until the
history of its tables is scrubbed (jobs/strandline/engine/repair/expire.py), their old files still hold what was forgotten.
"""

import gzip
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import PurePath
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import (
    PACKED,
    Kind,
    actions,
    commit_file,
    is_old,
    log_of,
    old_commit,
    versions,
    write_pack,
)
from strandline.engine.lake.log.ledger_sums import FOLDER, fingerprint
from strandline.engine.lake.open_table import live_files, opened
from strandline.engine.lake.place import Place, each_done
from strandline.engine.runtime.jvm import classic, jvm

REQUESTS = "_forgotten"


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


def _folder(lake: Lake) -> Place:
    return lake.root / REQUESTS


def _decoded(text: str) -> Forgotten:
    known = {each.name for each in fields(Forgotten)}
    return Forgotten(**{name: value for name, value in json.loads(text).items() if name in known})


# Make the history of a table unreadable up to a version: the files that later versions do not need, and what the log says of them.
#
# Delta's log repeats values of rows: each file is added with the smallest and the largest text of its columns, in the commit, in
# the checkpoints and in the checksums. Of files that are gone from the table these texts are dropped, which leaves every commit
# valid and of the same meaning: a file without a statistic is one that a reader must open. Numbers stay, and the times of columns
# that the table declares as times; a text that looks like one is a text.
#
# A commit is replaced as a whole and keeps its time, by which Delta finds versions; an object cannot, so on a store Delta finds
# the versions that were scrubbed by the time of the scrub. Where closed books name it by a
# hash, they are given the new one. A commit that was rewritten already is left as it is, so a kill between two costs nothing.


EXTREMES = ("minValues", "maxValues")

Times: TypeAlias = "Mapping[str, Times | None]"
"""The columns that hold times, by name; for a structure those within it."""


@dataclass(frozen=True, slots=True)
class Rest:
    """What a scrub leaves: the files of the table, and the statistics of columns that hold times."""

    live: set[str]
    times: Times


def scrub_log(spark: SparkSession, path: Place, until: int) -> tuple[int, int]:
    """Scrub a table up to a version; return how many data files and how many commits it concerned.

    Args:
        spark: Writes a new checkpoint in place of the old ones.
        path: The table.
        until: The last version whose history goes; rows of the latest version stay as they are.
    """
    table = opened(path)
    live = {Place.of(file).below(path) for file in live_files(table)}
    rest = Rest(live, times_of(json.loads(table.schema().to_json())))
    old = sorted(version for version in versions(path) if version <= until)
    deleted = 0
    for version in old:
        for name in _gone(path, version, live):
            deleted += _delete(path / name)
    before = {version: fingerprint(path, version) for version in old}
    rewritten = [version for version in old if _rewrite(path, version, rest)]
    rewritten += [version for pack in _packs(path, old) for version in _repack(path, pack, rest)]
    hashes = {before[version]: fingerprint(path, version) for version in rewritten}
    _rename(path, hashes)
    _drop_copies(spark, path, until)
    return deleted, len({*rewritten})


def _gone(path: Place, version: int, live: set[str]) -> Iterator[str]:
    """Yield the files that a version names and that no row of today lies in."""
    for each in actions(path, version, Kind.ADD, Kind.REMOVE):
        name = unquote(each.body["path"])
        if name not in live:
            yield name


def _delete(file: Place) -> int:
    is_there = file.exists()
    file.remove()
    (file.parent / f".{file.name}.crc").remove()
    return int(is_there)


def _rewrite(path: Place, version: int, rest: Rest) -> bool:
    """Drop the texts from the statistics of files that are gone; return whether the commit had any."""
    file = commit_file(path, version)
    text = file.text()
    new = _scrubbed(text or "", rest)
    if text is None or new == text:
        return False
    if file.is_local:
        stat = file.local.stat()
        file.put(new)
        os.utime(file.local, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    else:
        file.put(new)
    (file.parent / f".{file.name}.crc").remove()
    return True


def _packs(path: Place, old: list[int]) -> list[int]:
    """Return the packs of commits that were moved out of the log."""
    numbers = sorted({version // PACKED for version in old})
    return [number for number in numbers if is_old(path, number * PACKED)]


def _repack(path: Place, number: int, rest: Rest) -> list[int]:
    """Do the same to the commits of a pack; return which of them had any."""
    every = range(number * PACKED, (number + 1) * PACKED)
    texts = ((version, old_commit(path, version)) for version in every)
    commits = {version: text for version, text in texts if text is not None}
    new = {version: _scrubbed(text, rest) for version, text in commits.items()}
    if new != commits:
        write_pack(path, new)
    return [version for version, text in commits.items() if new[version] != text]


def _scrubbed(text: str, rest: Rest) -> str:
    # Not splitlines: a text may contain one of Unicode's other line ends.
    return "\n".join(_without_texts(line, rest) for line in text.split("\n"))


def _without_texts(line: str, rest: Rest) -> str:
    if not line.startswith(('{"add":', '{"remove":')):
        return line
    ((kind, body),) = json.loads(line).items()
    if "stats" not in body or unquote(body["path"]) in rest.live:
        return line
    stats = json.loads(body["stats"] or "{}")
    kept = {
        **stats,
        **{name: _plain(stats[name], rest.times) for name in EXTREMES if name in stats},
    }
    if kept == stats:
        return line
    text = json.dumps(kept, separators=(",", ":"))
    return json.dumps({kind: {**body, "stats": text}}, separators=(",", ":"), ensure_ascii=False)


def times_of(schema: Mapping[str, Any]) -> Times:
    """Return the columns of a schema that hold times, and those of structures that do."""
    found: dict[str, Times | None] = {}
    for each in schema["fields"]:
        kind = each["type"]
        if isinstance(kind, str) and kind.startswith("timestamp"):
            found[each["name"]] = None
        elif isinstance(kind, dict) and kind.get("type") == "struct":
            found[each["name"]] = times_of(kind)
    return found


def _plain(values: dict[str, Any], times: Times) -> dict[str, Any]:
    """Return the extremes that are numbers or times; a text may be anything."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            kept[name] = _plain(value, times.get(name) or {})
        elif not isinstance(value, str) or (name in times and _is_time(value)):
            kept[name] = value
    return kept


def _is_time(text: str) -> bool:
    """Return whether a text is a time; a column may have held others before it had today's type."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text


def _rename(path: Place, hashes: dict[str, str]) -> None:
    """Give closed books the new hashes of commits; with the old ones they would be added up again."""
    folder = path.parent.parent / FOLDER
    for name in folder.names() if hashes else ():
        text = before = (folder / name).text() or ""
        for old, new in hashes.items():
            text = text.replace(old, new)
        if text != before:
            (folder / name).put(text)


def _drop_copies(spark: SparkSession, path: Place, until: int) -> None:
    """Replace the checkpoints by a new one, and remove the checksums of old versions; both repeat the statistics."""
    old = [name for name in log_of(path).names() if _version(name) <= until]
    if any(".checkpoint" in name for name in old):
        # A session of its own cache: the one of this process may hold the statistics as they were.
        machine = jvm(spark)
        machine.org.apache.spark.sql.delta.DeltaLog.clearCache()
        log = machine.org.apache.spark.sql.delta.DeltaLog.forTable(classic(spark), str(path))
        none = machine.scala.Option.empty()
        log.checkpoint(log.update(False, none, none), none)
    newest = max(versions(path))
    for name in old:
        is_checkpoint = ".checkpoint" in name and _version(name) < newest
        is_sum = name.endswith(".crc") and _version(name) < newest
        if is_checkpoint or is_sum:
            (log_of(path) / name).remove()


def _version(name: str) -> int:
    digits = name.lstrip(".").partition(".")[0]
    return int(digits) if digits.isdigit() else 1 << 62


# A text as bytes may hold it: as UTF-8, or as a writer of JSON escaped it, once or within another JSON.
#
# ``Jörg`` is ``J\u00f6rg`` in what Python's json, Jackson and many producers write, ``J\\u00f6rg`` where that is a text of another
# JSON, as the statistics in Delta's log are. A search for the letters alone passed over all of these, and called the lake clean.
#
# The pattern is one of Java's and of Python's alike, over bytes that were read as Latin 1: Spark searches records with it, the
# search through all files reads without Spark.


SHORT = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
"""What JSON writes with one letter behind a backslash."""

MARK = "\\"
"""What is in bytes in which anything was escaped."""

PLAIN = re.compile(r"[\w .,:;@+=-]*", re.ASCII)
"""A text that a writer of JSON may only escape as ``\\u``; others get a backslash alone, or letters of their own."""


def pattern_of(text: str) -> str:
    """Return the pattern of a text, with each of its letters as it is or escaped."""
    return "".join(map(_letter, text))


def mark_of(text: str) -> str:
    r"""Return what bytes contain where they hold a text in an escaped form; it is searched first, because that is fast.

    >>> mark_of("d-17"), mark_of('a"b')
    ('\\u', '\\')
    """
    return f"{MARK}u" if PLAIN.fullmatch(text) or text.isalnum() else MARK


def literal(text: str) -> str:
    """Return the pattern of a text as it is."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", text.encode().decode("latin-1"))


def _letter(letter: str) -> str:
    units = letter.encode("utf-16-be")
    codes = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    escaped = "".join(rf"\\+u{''.join(map(_digit, code))}" for code in codes)
    if letter in SHORT:
        return rf"(?:{literal(letter)}|\\+{SHORT[letter]}|{escaped})"
    if letter == MARK:
        return rf"(?:\\+u{''.join(map(_digit, codes[0]))}|\\+)"
    before = r"\\*" if letter in "\"'/" else ""
    return rf"(?:{before}{literal(letter)}|{escaped})"


def _digit(digit: str) -> str:
    return f"[{digit}{digit.upper()}]" if digit.isalpha() else digit


# Search every file of a lake for a text: its bytes as they are, and the values of Parquet files, which are compressed.
#
# It is the proof that a request to forget left nothing, so it believes no statistics and passes over no file. What it cannot
# read it names: the state of a stream is compressed in a form that only Spark reads.
#
# A text is searched as its letters and as JSON escapes them.
# It is searched as a word, so ``d-17`` is not found in ``d-170``; in binary files it is found in any place.


ROWS = 65_536
"""Rows that are decoded at once."""

BLOCK = 1 << 22
"""Bytes of another file that are read at once."""

OVERLAP = 4_096
"""Bytes of a block that are searched again with the next one; no text is longer."""

STATE = "state"
"""The folder of a checkpoint with the state of its stream."""

COMPRESSED = frozenset([".zip", ".changelog", ".sst", ".delta", ".snapshot"])
BINARY = frozenset([".db", ".index", ".timeindex", ".sqlite", ".duckdb"])


@dataclass(frozen=True, slots=True)
class Word:
    """A text, and the patterns that find it as a word; an escaped end of a line before it is none of its letters.

    Args:
        text: The text.
        plain: The pattern of its own bytes, which is fast.
        escaped: The pattern of what JSON made of it.
        mark: What bytes contain in which JSON may have escaped it.
        is_anywhere: Whether it is found within a longer word as well.
    """

    text: str
    plain: re.Pattern[bytes]
    escaped: re.Pattern[bytes]
    mark: bytes
    is_anywhere: bool = False

    @classmethod
    def of(cls, text: str, *, is_anywhere: bool = False) -> "Word":
        """Return the word of a text."""
        before, after = (
            ("", "") if is_anywhere else (r"(?:(?<![\w-])|(?<=\\[bfnrt]))", r"(?![\w-])")
        )
        plain, escaped = (
            re.compile(f"{before}{pattern}{after}".encode("latin-1"))
            for pattern in (literal(text), pattern_of(text))
        )
        return cls(text, plain, escaped, mark_of(text).encode(), is_anywhere)

    def is_in(self, data: bytes) -> bool:
        """Return whether bytes hold it."""
        if self.plain.search(data):
            return True
        return self.mark in data and bool(self.escaped.search(data))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A file that holds the text, or that cannot be searched.

    Args:
        file: Its path within the lake.
        how: ``bytes``, ``values`` of a column, or why it cannot be read.
        kind: What the file is for, and what removes the text from it.
        is_certain: Whether it was read.
    """

    file: str
    how: str
    kind: str
    is_certain: bool = True


def _is_text(kind: "pa.DataType") -> bool:
    """Return whether a type is one of texts or bytes; which one a file is read as depends on who wrote it."""
    types = pa.types
    kinds = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
    )
    return any(is_kind(kind) for is_kind in kinds)


def _is_list(kind: "pa.DataType") -> bool:
    types = pa.types
    kinds = (
        types.is_list,
        types.is_large_list,
        types.is_list_view,
        types.is_large_list_view,
        types.is_fixed_size_list,
    )
    return any(is_kind(kind) for is_kind in kinds)


TABLE_FILE = "a table's file"
KINDS = (
    (
        "_kafka",
        "the broker's log: outside of the tables; send a tombstone for the key, or let its retention pass",
    ),
    (
        "_checkpoints",
        "a stream's checkpoint: its state goes with the watermark, at once by `strandline rebuild`",
    ),
    ("_logs", "a log, which rotates"),
    ("_who", "the log of orders: `strandline forget --where … --go` replaces the words"),
    ("_dagster", "Dagster's events: remove the run in `strandline ui`"),
    ("_gates", "the samples of a gate: open or correct it (`strandline gate`)"),
    ("_audits", "the result of an audit: `strandline check` writes it anew"),
    ("_docs", "a page of Great Expectations: delete it"),
    (
        "_rebuild",
        "a rebuild that was not promoted: `strandline rebuild` computes it anew from what is left",
    ),
    ("_verify", "a scratch lake: `strandline tidy --go`"),
    ("_books", "closed books: delete the file, it is written again"),
    ("quality", "a report: delete it, or write it anew with `strandline report`"),
)


def search(lake: Lake, text: str, seen: Callable[[str], None] = lambda _: None) -> Iterator[Hit]:
    """Yield the files of a lake that hold a text, and those that cannot be searched; on a store also those near its programs.

    Args:
        lake: The lake.
        text: The text, as bytes of UTF-8; where it is a number, a column of integers is searched for it as well.
        seen: Called with each file.
    """
    word = Word.of(text)
    for root in dict.fromkeys((lake.root, lake.near)):

        def hit(file: Place, root: Place = root) -> Hit | None:
            name = file.below(root)
            seen(name)
            return _hit(file, name, word)

        files = (file for file in sorted(root.files()) if not _is_link(file))
        yield from filter(None, each_done(hit, files, among=[root]))


def _is_link(file: Place) -> bool:
    return file.is_local and file.local.is_symlink()


def _hit(file: Place, name: str, word: Word) -> Hit | None:
    """Return what was found in a file; None where that is nothing, also because a stream has just removed it."""
    try:
        how = _found(file, word)
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException) as error:
        how = f"{type(error).__name__}: {error}"
        return Hit(file=name, how=how, kind=_kind(name), is_certain=False)
    if how:
        return Hit(file=name, how=how, kind=_kind(name))
    if _is_state(PurePath(name)):
        return Hit(file=name, how="compressed", kind=_kind(name), is_certain=False)
    return None


def _kind(name: str) -> str:
    return next((kind for folder, kind in KINDS if name.startswith(f"{folder}/")), TABLE_FILE)


def _is_state(file: PurePath) -> bool:
    return STATE in file.parts and file.suffix in COMPRESSED


def _found(file: Place, word: Word) -> str:
    suffix = PurePath(file.name).suffix
    if suffix == ".parquet":
        return _in_values(file, word)
    if suffix == ".gz":
        text = gzip.decompress(file.bytes() or b"")
        return "compressed bytes" if word.is_in(text) else ""
    if suffix in COMPRESSED or suffix in BINARY:
        return "bytes" if _in_bytes(file, Word.of(word.text, is_anywhere=True)) else ""
    return "bytes" if _in_bytes(file, word) else ""


def _in_bytes(file: Place, word: Word) -> bool:
    with closing(file.opened()) as stream:
        before = b""
        while block := bytes(stream.read(BLOCK)):
            if word.is_in(before + block):
                return True
            before = (before + block)[-OVERLAP:]
    return False


def _in_values(file: Place, word: Word) -> str:
    with pq.ParquetFile(file.source()) as parquet:
        for batch in parquet.iter_batches(ROWS):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if _holds(column, word):
                    return f"values of {name}"
    return ""


def _holds(column: "pa.Array", word: Word) -> bool:
    """Return whether a column, or one within it, holds a text."""
    kind = column.type
    if _is_text(kind):
        values = column.cast(pa.large_binary())
        # Two looks that are fast: most values have neither the text nor anything that is escaped.
        near = [
            pc.fill_null(pc.match_substring(values, part), False)
            for part in (word.text.encode(), word.mark)
        ]
        return any(word.is_in(value) for value in values.filter(pc.or_(*near)).to_pylist())
    if pa.types.is_integer(kind) and word.text.isdigit():
        wanted = int(word.text)
        return wanted < 1 << 63 and bool(pc.any(pc.equal(column, wanted)).as_py())
    return any(_holds(each, word) for each in _within(column))


def _within(column: "pa.Array") -> "list[pa.Array]":
    """Return the columns that a column is made of; none where its values are numbers, times or the like.

    Raises:
        OSError: It is of a kind that this search does not know, so the file counts as not searched.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return [column.field(number) for number in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [column.keys, column.items]
    if _is_list(kind):
        return [column.flatten()]
    if pa.types.is_dictionary(kind):
        return [column.dictionary]
    if pa.types.is_run_end_encoded(kind):
        return [column.values]
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return []
    raise OSError(f"a column of type {kind} cannot be searched")
