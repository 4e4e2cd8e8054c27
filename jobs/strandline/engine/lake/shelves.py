"""Shelves of a lake: the versions of its models and of its rules, which of them is live, and the schemas of payloads.

A version is one file that is created once and never changed; its name is a hash of its content. The file of the terms
has every promotion and every rollback, in the order in which they were decided, and is replaced only as it was read
(``Place.exchange``): of two processes that promote at once one wins, in a folder and on a store alike. Of the terms
that hold at a moment the last counts, so a rollback takes nothing away: it is one more term.

The order is that of alert rules, with one difference. What raises an alert may change at any moment,
but a score is a row, and all modes must give the same: so a term begins at a moment of event time, and what has scored
a row keeps it.

``history.jsonl`` has a line for each decision, the refused ones included. The line comes first: of a process that was
killed between the two, a line too much is left.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.model import Term, Trained, from_words
from strandline.core.routes import WriterSchema
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import scratch

TERMS, HISTORY = "terms.json", "history.jsonl"
SUFFIX = ".json"

PROMOTED, ROLLED_BACK, RESCORED = DECIDED = ("promoted", "rolled back", "rescored")

MOST = 100
"""Terms of a model. The plan that scores has each of them, because a backfill may reach any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A promotion, or a rollback.

    Args:
        what: ``promoted``, ``rolled back``, or ``rescored``: it holds of history from before the first promotion.
        version: The version that holds from then on; None for none.
        since: The event time from which on it holds.
        at: When it was decided.
        by: By whom.
    """

    what: str
    version: str | None
    since: str
    at: str
    by: str


@dataclass(frozen=True, slots=True)
class Terms:
    """The decisions about a model, in their order, and the tag of the file that has them."""

    every: tuple[Decision, ...]
    tag: str | None

    @property
    def stack(self) -> list[str]:
        """Return the promoted versions that were not rolled back, the last of them the one that was promoted last."""
        stack: list[str] = []
        for each in self.every:
            if each.what == PROMOTED and each.version is not None:
                stack.append(each.version)
            elif each.what == ROLLED_BACK:
                stack.pop()
        return stack


def keep(lake: Lake, name: str, version: str, words: Mapping[str, Any]) -> None:
    """Write a version; one that is there has the same meaning, and stays as it is."""
    _file(lake, name, version).create(json.dumps(words, indent=1) + "\n")


def versions(lake: Lake, name: str) -> list[dict[str, Any]]:
    """Return what is known of each version, the oldest first.

    The draft of one that is being written, or of a process that was killed meanwhile, is none.
    """
    names = (lake.models / name / "versions").names()
    whole = (each for each in names if each.endswith(SUFFIX) and not each.startswith("."))
    found = (version(lake, name, each.removesuffix(SUFFIX)) for each in whole)
    return sorted(found, key=lambda words: str(words["certificate"]["at"]))


def version(lake: Lake, name: str, wanted: str) -> dict[str, Any]:
    """Return what is known of a version.

    Raises:
        DataError: Its file is damaged.
        DefinitionError: There is none of that name.
    """
    file = _file(lake, name, wanted)
    text = file.text()
    if text is None:
        raise DefinitionError(
            f"the model {name} has no version {wanted} in {lake.root}",
            hint=f"`strandline models list` shows its versions, `strandline models train {name}` makes one.",
            model=name,
        )
    try:
        return dict(json.loads(text))
    except ValueError as error:
        raise DataError(
            f"{file} is damaged, so the version {wanted} of {name} cannot be read",
            hint="bring it back from a snapshot; or remove it, where no row has the version, and train it again.",
            model=name,
        ) from error


def terms(lake: Lake, name: str) -> Terms:
    """Return the decisions about a model."""
    found = (lake.models / name / TERMS).tagged()
    if found is None:
        return Terms((), None)
    return Terms(tuple(Decision(**each) for each in json.loads(found[0])), found[1])


def in_force(lake: Lake, name: str, known: Terms | None = None) -> tuple[Term, ...]:
    """Return what scores the rows of a model's table: each term with its version."""
    decided = known or terms(lake, name)
    return tuple(
        (
            datetime.fromisoformat(each.since),
            None if each.version is None else _trained(_file(lake, name, each.version)),
        )
        for each in decided.every
    )


def decide(lake: Lake, name: str, was: Terms, decision: Decision) -> Terms:
    """Add a decision to those that were read, and return all of them.

    One about history comes before all others, so that each of them counts where it holds.

    Raises:
        DefinitionError: There are too many.
        TransientError: Another process has decided meanwhile.
    """
    if len(was.every) >= MOST:
        raise DefinitionError(
            f"the model {name} was promoted and rolled back {MOST} times, and each is part of the plan that scores",
            hint="declare a model and a table of another name; both may run beside these.",
            model=name,
        )
    note(lake, name, asdict(decision))
    is_first = decision.what == RESCORED
    every = (decision, *was.every) if is_first else (*was.every, decision)
    text = json.dumps([asdict(each) for each in every], indent=1)
    tag = (lake.models / name / TERMS).exchange(text, was.tag)
    if tag is None:
        note(lake, name, {**asdict(decision), "what": "not decided: another process was first"})
        raise TransientError(
            f"another process has promoted a version of {name} meanwhile, or rolled one back",
            hint="`strandline models show` has what holds; type the same again if it is still wanted.",
            model=name,
        )
    return Terms(every, tag)


def restore(lake: Lake, name: str, known: Terms, was: Terms) -> None:
    """Write the decisions as they were before the last one, unless another process has added one."""
    text = json.dumps([asdict(each) for each in was.every], indent=1)
    (lake.models / name / TERMS).exchange(text, known.tag)


def note(lake: Lake, name: str, line: Mapping[str, Any]) -> None:
    """Add a line to a model's history."""
    (lake.models / name / HISTORY).append(json.dumps(line))


def history(lake: Lake, name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of a model's history; one that was cut off as it was written has no more than that, and ends no reading."""
    for line in ((lake.models / name / HISTORY).text() or "").split("\n"):
        if not line:
            continue
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        yield (
            found if isinstance(found, dict) else {"what": f"a line that was cut off: {line[:60]}"}
        )


def carry(lake: Lake, to: Lake, names: Sequence[str]) -> None:
    """Give another lake the terms of some models as they are now, and the versions that these name.

    A lake in which rows are computed again must score them alike, also while a version is promoted in the first.
    """
    for name in names:
        known = terms(lake, name)
        for wanted in {each.version for each in known.every if each.version}:
            _file(to, name, wanted).put(json.dumps(version(lake, name, wanted)))
        if known.every:
            (to.models / name / TERMS).put(json.dumps([asdict(each) for each in known.every]))


@lru_cache(maxsize=256)
def _trained(file: Place) -> Trained:
    """Read what scores from a version, which never changes."""
    return trained(json.loads(file.text() or "{}"))


def trained(words: Mapping[str, Any]) -> Trained:
    """Return what scores from what is known of a version."""
    return Trained(
        version=words["version"],
        features=tuple(each["sql"] for each in words["features"]),
        form=from_words(words["form"]),
        threshold=words["threshold"],
    )


def _file(lake: Lake, name: str, wanted: str) -> Place:
    return lake.models / name / "versions" / f"{wanted}{SUFFIX}"


# The live rules of a lake: a folder for each version of them, and one file with the version that is live.
#
# A version is complete before it is live, and to make it live is to replace one small file. So a reader of the rules sees
# all files of a promotion or none, and the former version is there to be taken back. Beside them is a file that only grows,
# with a line for each promotion and each time that one was taken back. The line comes first: of a process that was killed
# between the two, a line too much is left, and what is live is in the one file.
#
# No lock is held: the number of a version is claimed by a file that one process creates, and the one file is replaced only as
# it was read. Of two processes that promote at once, one wins, in a folder and on a store alike.
#
# Rules that were muted stay so: ``muted.txt`` goes along, forwards and backwards.


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


LIVE, RULE_HISTORY = "live.json", "history.jsonl"
MUTED = "muted.txt"

MOST_RULES = 20
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
    _switch(lake, stack, (*stack.every, done)[-MOST_RULES:], done)
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
    for version in _versions(lake)[:-MOST_RULES]:
        if version not in kept:
            (lake.rules / version).remove()
            _claim(lake, version).remove()


def _note(lake: Lake, done: Promotion, what: str, *, at: str, by: str) -> None:
    line = {"what": what, **asdict(done), "at": at, "by": by}
    (lake.rules / RULE_HISTORY).append(json.dumps(line))


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


# The schemas with which the payloads of a lake were written: a small file for each id of the registry, never changed.
#
# With them the rows of bronze are all that a rebuild needs: next year's asks no registry, which may be gone by then. A file is
# written before the rows that need it are committed, so a reader of a row finds its schema.
#
# That the registry did not know an id is kept as well. Otherwise an id that is registered later would make a row of a record
# that a stream has quarantined, and a batch over the same log would give another answer than the stream.


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
