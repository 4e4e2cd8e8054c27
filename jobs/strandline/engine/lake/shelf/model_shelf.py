"""The versions of a lake's models, and the file that says from which event time on which of them holds.

A version is one file that is created once and never changed; its name is a hash of its content. The file of the terms
has every promotion and every rollback, in the order in which they were decided, and is replaced only as it was read
(``Place.exchange``): of two processes that promote at once one wins, in a folder and on a store alike. Of the terms
that hold at a moment the last counts, so a rollback takes nothing away: it is one more term.

The order is that of alert rules (rule_shelf.py), with one difference. What raises an alert may change at any moment,
but a score is a row, and all modes must give the same: so a term begins at a moment of event time, and what has scored
a row keeps it.

``history.jsonl`` has a line for each decision, the refused ones included. The line comes first: of a process that was
killed between the two, a line too much is left.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.model import Term, Trained
from strandline.core.scoring import from_words
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake

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
