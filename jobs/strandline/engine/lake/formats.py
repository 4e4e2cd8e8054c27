"""The forms in which a lake is written: a program that is too old for one of them refuses before it writes.

A roll-back was possible until a newer program had written something that the older one takes for something else. It
ended in the middle of a batch of one table, with ``KeyError: 'changes'``, after the others had gone on. So the lake
says itself what it holds: one small file has, for each kind of what is stored, the number of the newest form in it.

* A writer raises a number before it first writes the newer form, never because it is new itself: until then the
  older program may come back.
* A lake without the file is of before, and opens as it did.
* The file explains each form in words, because the program that reads them does not know what came after it.

Only who writes refuses. Questions are answered as far as they can be, and what they meet and do not know is an error of
its own (jobs/strandline/engine/lake/log/ledger.py).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from strandline.core.errors import DataError, DefinitionError
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.store_lease import hold

STATE, ENTRIES, TABLES, CHECKPOINTS = "state of streams", "ledger entries", "tables", "checkpoints"
COLUMNS, CLOSES = "columns", "closes"
"""Kinds of what is stored; a newer program may have more of them."""

PAGE = "infra/docs/kubernetes.md#roll-back"


class NewerLakeError(DefinitionError):
    """A newer program has written the lake in a form that this one does not know; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of one kind.

    Args:
        number: It counts up; 0 is what was written before forms had numbers.
        what: What is written in it that a program of before cannot read.
        since: The day of the first program that can.
        by: The version that raised a lake to it.
    """

    number: int
    what: str
    since: str
    by: str = ""


FORMS: Mapping[str, Form] = {
    STATE: Form(
        number=1,
        what="rows that wait in the state of a table's fold lie in pieces",
        since="2026-11-26",
    ),
    ENTRIES: Form(
        number=2,
        what="a topic that was retired, or a cluster that was left",
        since="2026-11-26",
    ),
    TABLES: Form(
        number=1,
        what="one is retired, and code of before would feed it",
        since="2026-11-27",
    ),
    CHECKPOINTS: Form(
        number=1,
        what="the state of a de-duplication is in memory while it is small, in files of its own",
        since="2026-11-28",
    ),
    COLUMNS: Form(
        number=1,
        what="one was given a wider type, or another name, in place",
        since="2026-11-29",
    ),
    CLOSES: Form(
        number=1,
        what="a table was closed on purpose, and a rebuild by code of before would take its last windows back",
        since="2026-11-29",
    ),
}
"""The newest form of each kind that this program knows; it writes and reads all up to that."""


def raise_to(place: Place, kind: str, lock: Place) -> None:
    """Say in a lake that it holds the newest form of a kind from now on; called before that is written.

    Args:
        place: The lake's file.
        kind: Of what.
        lock: The file whose lock lets one program at a time change it.
    """
    form = FORMS[kind]
    if _number(forms(place).get(kind)) >= form.number:
        return
    with hold(lock):
        known = forms(place)
        if _number(known.get(kind)) < form.number:
            by = f"strandline {version('strandline')}"
            raised = {**known, kind: {**asdict(form), "by": by}}
            place.put(json.dumps(raised, indent=1))


def forms(place: Place) -> dict[str, Any]:
    """Return what a lake says of its forms, by kind; nothing where it is of before.

    Raises:
        DataError: The file cannot be read.
    """
    text = place.text()
    if text is None:
        return {}
    try:
        found = json.loads(text)
        if all(isinstance(_number(each), int) for each in found.values()):
            return dict(found)
    except (AttributeError, TypeError, ValueError, KeyError):
        pass
    raise DataError(
        f"{place.name} of the lake cannot be read, so it is not known in which form the lake is written",
        hint=f"a program may change nothing meanwhile. Take {place.name} from a snapshot; without one write "
        f"`{{}}` into it, if no newer program than this one ever wrote the lake ({PAGE}).",
        file=str(place),
    )


def newer(place: Place) -> list[str]:
    """Return a sentence for each form of a lake that this program does not know."""
    return [
        f"its {kind} have form {_number(each)}{_words(each)}, and this program knows "
        f"{'up to form ' + str(FORMS[kind].number) if kind in FORMS else 'no such kind'}"
        for kind, each in sorted(forms(place).items())
        if _number(each) > (FORMS[kind].number if kind in FORMS else 0)
    ]


def no_way_back(place: Place) -> list[str]:
    """Return for each form of a lake what a program of before cannot read: a roll-back ends there."""
    return [
        f"no way back: the {kind} of this lake have form {_number(each)}{_words(each)}. Code of before {each['since']} cannot read that; "
        f"where it does not look at {place.name} it fails in the middle of a table ({PAGE})"
        for kind, each in sorted(forms(place).items())
        if isinstance(each, dict) and "since" in each
    ]


def refuse_newer(place: Place) -> None:
    """Refuse to write a lake that a newer program has written in a form which this one does not know.

    Raises:
        NewerLakeError: One has.
        DataError: The lake's file cannot be read.
    """
    if not (unknown := newer(place)):
        return
    by = {
        str(each["by"])
        for each in forms(place).values()
        if isinstance(each, dict) and each.get("by")
    }
    since = [
        str(each["since"])
        for each in forms(place).values()
        if isinstance(each, dict) and each.get("since")
    ]
    what = f"a program of {max(since)} or later" if since else "the program that wrote it"
    raise NewerLakeError(
        f"a newer program has written {place.parent}: {'; '.join(unknown)}",
        hint=f"nothing was changed. Start {what}{' (' + ' or '.join(sorted(by)) + ' wrote it)' if by else ''}, or restore a "
        f"snapshot of before into another folder ({PAGE}); questions such as `strandline ledger` are answered as far as they can be.",
        lake=str(place.parent),
        forms={kind: _number(each) for kind, each in forms(place).items()},
    )


def _number(form: Any) -> int:  # noqa: ANN401  # as JSON has it
    """Return the number of a form; a plain number is one as well."""
    if form is None:
        return 0
    return int(form["number"]) if isinstance(form, dict) else int(form)


def _words(form: Any) -> str:  # noqa: ANN401  # as above
    what = form.get("what") if isinstance(form, dict) else None
    return f" ({what})" if what else ""
