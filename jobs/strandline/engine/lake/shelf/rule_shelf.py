"""The live rules of a lake: a folder for each version of them, and one file with the version that is live.

A version is complete before it is live, and to make it live is to replace one small file. So a reader of the rules sees
all files of a promotion or none, and the former version is there to be taken back. Beside them is a file that only grows,
with a line for each promotion and each time that one was taken back. The line comes first: of a process that was killed
between the two, a line too much is left, and what is live is in the one file.

No lock is held: the number of a version is claimed by a file that one process creates, and the one file is replaced only as
it was read. Of two processes that promote at once, one wins, in a folder and on a store alike.

Rules that were muted stay so: ``muted.txt`` goes along, forwards and backwards.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.scratch import scratch

# A folder of a lake as a folder of this machine, for what reads paths: itself where it is one, otherwise a copy.
#
# A copy is brought up to date each time: a file whose size or time differs from that of its object is fetched again, and one
# whose object is gone is removed. So two processes may do it at once, and a person may change an object by hand.


def near_copy(folder: Place, at: Place) -> Path:
    """Return the path of a folder, having copied it to a place of this machine where it is on a store.

    Args:
        folder: A folder with few and small files.
        at: Where its copy is, or will be; used for nothing else.
    """
    if folder.is_local:
        return folder.local
    there = {file.place.below(folder): file for file in folder.listed()}
    for copied in [*at.files()]:
        if copied.below(at) not in there:
            copied.remove()
    for name, file in there.items():
        copy = at / name
        if not _is_same(copy.local, file.size, file.written):
            content = file.place.bytes()
            if content is not None:  # removed since it was listed
                copy.put_bytes(content)
                os.utime(copy, ns=(file.written, file.written))
    return at.local


def _is_same(file: Path, size: int, written: int) -> bool:
    try:
        stat = file.stat()
    except FileNotFoundError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (size, written)


LIVE, HISTORY = "live.json", "history.jsonl"
MUTED = "muted.txt"

MOST = 20
"""Promotions that can be taken back, and versions that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """How a version of the live rules came to be.

    Args:
        version: Its number.
        at: When it was promoted.
        by: Who did.
        rules: What was promoted: the id, the version and the file of each rule.
        backtest: What the rules would have raised, in which range, and what it cost.
    """

    version: str
    at: str
    by: str
    rules: tuple[Mapping[str, str], ...]
    backtest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Stack:
    """The promotions that can be taken back, the last of them the live one, and the tag of the file that says so."""

    every: tuple[Promotion, ...]
    tag: str | None

    def live(self, lake: Lake) -> Place | None:
        return lake.rules / self.every[-1].version if self.every else None


def live_rules(lake: Lake) -> Path | None:
    """Return the folder of the rules that are live, of this machine; None where none were promoted."""
    live = _stack(lake).live(lake)
    if live is None:
        return None
    copies = lake.near / lake.rules.name
    if not live.is_local:
        for name in copies.names():
            if name != live.name:
                (copies / name).remove(if_possible=True)
    return near_copy(live, copies / live.name)


def promotions(lake: Lake) -> tuple[Promotion, ...]:
    """Return the promotions that can be taken back, the last of them the one that is live."""
    return _stack(lake).every


def put_live(  # noqa: PLR0913  # what, instead of what, on which ground, and its record
    lake: Lake,
    files: Mapping[str, bytes],
    *,
    without: Collection[str],
    base: Path,
    check: Callable[[Path], None],
    record: Mapping[str, Any],
) -> Promotion:
    """Add files to the rules that are live, all at once.

    Args:
        lake: Where.
        files: Their contents, by their paths below the folder of rules.
        without: Files to leave out.
        base: The rules that are live where none were promoted yet.
        check: Raises when the folder that would be live is not sound; nothing is live then.
        record: What ``Promotion`` has beside its version.

    Raises:
        TransientError: Another process has promoted rules meanwhile.
    """
    stack = _stack(lake)
    live = stack.live(lake)
    with scratch() as folder:
        draft = folder / "rules"
        shutil.copytree(near_copy(live, folder / "live") if live else base, draft)
        for name in without:
            (draft / name).remove()
        for name, content in files.items():
            (draft / name).put_bytes(content)
        check(draft.local)
        done = Promotion(version=_claimed(lake), **record)
        for file in draft.files():
            (lake.rules / done.version / file.below(draft)).put_bytes(file.bytes() or b"")
    _note(lake, done, "promoted", at=done.at, by=done.by)
    _switch(lake, stack, (*stack.every, done)[-MOST:], done)
    return done


def take_back(lake: Lake, *, at: str, by: str) -> Promotion:
    """Make the version before the last promotion live again, and return the promotion that was taken back.

    Raises:
        DefinitionError: There is none.
        TransientError: Another process has promoted rules meanwhile.
    """
    stack = _stack(lake)
    if not stack.every:
        raise DefinitionError(
            f"no rules were promoted in {lake.root}, or none that are kept",
            hint="`strandline rules backtest RULE --promote` promotes; versions are folders in _rules of the lake.",
        )
    *before, last = stack.every
    if before:
        _carry_muted(lake.rules / last.version, lake.rules / before[-1].version)
    _note(lake, last, "taken back", at=at, by=by)
    _switch(lake, stack, tuple(before), last)
    return last


def _stack(lake: Lake) -> _Stack:
    found = (lake.rules / LIVE).tagged()
    if found is None:
        return _Stack((), None)
    every = (Promotion(**{**each, "rules": tuple(each["rules"])}) for each in json.loads(found[0]))
    return _Stack(tuple(every), found[1])


def _switch(lake: Lake, was: _Stack, stack: Collection[Promotion], done: Promotion) -> None:
    """Replace the one file, unless another process has done so; then say so in the history too."""
    text = json.dumps([asdict(each) for each in stack], indent=1)
    if (lake.rules / LIVE).exchange(text, was.tag) is None:
        _note(lake, done, "refused", at=done.at, by=done.by)
        raise TransientError(
            "another process has promoted rules meanwhile, or taken some back",
            hint="`strandline status` names the version that is live; type the same again if it is still wanted.",
        )
    kept = {each.version for each in stack}
    for version in _versions(lake)[:-MOST]:
        if version not in kept:
            (lake.rules / version).remove()
            _claim(lake, version).remove()


def _note(lake: Lake, done: Promotion, what: str, *, at: str, by: str) -> None:
    line = {"what": what, **asdict(done), "at": at, "by": by}
    (lake.rules / HISTORY).append(json.dumps(line))


def _carry_muted(one: Place, other: Place) -> None:
    text = (one / MUTED).text()
    if text is None:
        (other / MUTED).remove()
    else:
        (other / MUTED).put(text)


def _versions(lake: Lake) -> list[str]:
    return [name for name in lake.rules.names() if name.isdigit()]


def _claimed(lake: Lake) -> str:
    """Return a number that no other version has, nor gets while its folder is written."""
    names = (name.removeprefix(".") for name in lake.rules.names())
    number = max((int(name) for name in names if name.isdigit()), default=0)
    while True:
        number += 1
        if _claim(lake, f"{number:04}").create(uuid4().hex):
            return f"{number:04}"


def _claim(lake: Lake, version: str) -> Place:
    return lake.rules / f".{version}"
