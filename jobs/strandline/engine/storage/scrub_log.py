"""Make the history of a table unreadable up to a version: the files that later versions do not need, and what the log says of them.

Delta's log repeats values of rows: each file is added with the smallest and the largest text of its columns, in the commit, in
the checkpoints and in the checksums. Of files that are gone from the table these texts are dropped, which leaves every commit
valid and of the same meaning: a file without a statistic is one that a reader must open. Numbers stay, and the times of columns
that the table declares as times; a text that looks like one is a text.

A commit is replaced as a whole and keeps its time, by which Delta finds versions; an object cannot, so on a store Delta finds
the versions that were scrubbed by the time of the scrub. Where closed books name it by a
hash, they are given the new one. A commit that was rewritten already is left as it is, so a kill between two costs nothing.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import unquote

from pyspark.sql import SparkSession

from strandline.engine.runtime.jvm import classic, jvm
from strandline.engine.storage.commit_log import Kind, actions, commit_file, log_of, versions
from strandline.engine.storage.ledger_snapshot import FOLDER, fingerprint
from strandline.engine.storage.old_commits import PACKED, is_old, old_commit, write_pack
from strandline.engine.storage.open_table import live_files, opened
from strandline.engine.storage.place import Place

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
