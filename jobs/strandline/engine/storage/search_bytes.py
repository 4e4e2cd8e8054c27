"""Search every file of a lake for a text: its bytes as they are, and the values of Parquet files, which are compressed.

It is the proof that a request to forget left nothing, so it believes no statistics and passes over no file. What it cannot
read it names: the state of a stream is compressed in a form that only Spark reads.

A text is searched as its letters and as JSON escapes them (jobs/strandline/engine/storage/text_in_bytes.py).
It is searched as a word, so ``d-17`` is not found in ``d-170``; in binary files it is found in any place.
"""

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strandline.engine.storage.at_once import each_done
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place
from strandline.engine.storage.text_in_bytes import literal, mark_of, pattern_of

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


TEXTS = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
"""The types of texts and bytes; which one a file is read as depends on who wrote it."""

LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_fixed_size_list,
)

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


def _holds(column: pa.Array, word: Word) -> bool:
    """Return whether a column, or one within it, holds a text."""
    kind = column.type
    if any(is_kind(kind) for is_kind in TEXTS):
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


def _within(column: pa.Array) -> list[pa.Array]:
    """Return the columns that a column is made of; none where its values are numbers, times or the like.

    Raises:
        OSError: It is of a kind that this search does not know, so the file counts as not searched.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return [column.field(number) for number in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [column.keys, column.items]
    if any(is_kind(kind) for is_kind in LISTS):
        return [column.flatten()]
    if pa.types.is_dictionary(kind):
        return [column.dictionary]
    if pa.types.is_run_end_encoded(kind):
        return [column.values]
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return []
    raise OSError(f"a column of type {kind} cannot be searched")
