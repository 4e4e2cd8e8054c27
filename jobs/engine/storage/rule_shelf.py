"""The live rules of a lake: a folder for each version of them, and one file with the version that is live.

A version is complete before it is live, and to make it live is to replace one small file. So a reader of the rules sees
all files of a promotion or none, and the former version is there to be taken back. Beside them is a file that only grows,
with a line for each promotion and each time that one was taken back. The line comes first: of a process that was killed
between the two, a line too much is left, and what is live is in the one file.

Rules that were muted stay so: ``muted.txt`` goes along, forwards and backwards.
"""

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jobs.core.errors import DefinitionError, TransientError
from jobs.engine.storage.durable import sync_all
from jobs.engine.storage.file_lock import HeldError, hold
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place

LIVE, HISTORY, LOCK = "live.json", "history.jsonl", "shelf.lock"
DRAFT = ".draft"
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


def live_rules(lake: Lake) -> Place | None:
    """Return the folder of the rules that are live; None where none were promoted."""
    found = promotions(lake)
    return lake.rules / found[-1].version if found else None


def promotions(lake: Lake) -> tuple[Promotion, ...]:
    """Return the promotions that can be taken back, the last of them the one that is live."""
    text = (lake.rules / LIVE).text()
    found = json.loads(text) if text else ()
    return tuple(Promotion(**{**each, "rules": tuple(each["rules"])}) for each in found)


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
        TransientError: Another process is promoting rules.
    """
    with _alone(lake):
        stack = promotions(lake)
        draft = lake.rules / DRAFT
        draft.remove()
        shutil.copytree(live_rules(lake) or base, draft.local)
        for name in without:
            (draft / name).remove()
        for name, content in files.items():
            (draft / name).parent.make()
            (draft / name).local.write_bytes(content)
        check(draft.local)
        done = Promotion(version=_next(lake), **record)
        sync_all((file for file in draft.local.rglob("*") if file.is_file()), within=draft.local)
        draft.move(lake.rules / done.version)
        _note(lake, done, "promoted", at=done.at, by=done.by)
        _switch(lake, (*stack, done)[-MOST:])
        return done


def take_back(lake: Lake, *, at: str, by: str) -> Promotion:
    """Make the version before the last promotion live again, and return the promotion that was taken back.

    Raises:
        DefinitionError: There is none.
        TransientError: Another process is promoting rules.
    """
    with _alone(lake):
        stack = promotions(lake)
        if not stack:
            raise DefinitionError(
                f"no rules were promoted in {lake.root}, or none that are kept",
                hint="`strandline rules backtest RULE --promote` promotes; versions are folders in _rules of the lake.",
            )
        *before, last = stack
        if before:
            _carry_muted(lake.rules / last.version, lake.rules / before[-1].version)
        _note(lake, last, "taken back", at=at, by=by)
        _switch(lake, tuple(before))
        return last


@contextmanager
def _alone(lake: Lake) -> Iterator[None]:
    try:
        with hold(lake.rules / LOCK, waits=False):
            yield
    except HeldError as error:
        raise TransientError(
            "another process is promoting rules", hint="type the same again in a moment."
        ) from error


def _switch(lake: Lake, stack: Collection[Promotion]) -> None:
    (lake.rules / LIVE).put(json.dumps([asdict(each) for each in stack], indent=1))
    kept = {each.version for each in stack}
    for version in _versions(lake)[:-MOST]:
        if version not in kept:
            (lake.rules / version).remove()


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


def _next(lake: Lake) -> str:
    return f"{max(map(int, _versions(lake)), default=0) + 1:04}"
