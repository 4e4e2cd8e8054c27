"""Which tables of a lake are retired: kept and read, and no longer fed; by whose decision, since when and why.

One small file in the lake has them all, so that every program asks it for the price of one read, and a snapshot takes it along.
A retired table keeps its module: it says how its rows are read, which columns are masked, how long they are kept, and what of it
a request to forget means.

A stream that is to go on where it ended needs what its sources have not given it yet, and maintenance keeps that for as long as
a promotion can be undone. After that, or where a retention or a request to forget must not wait for it, its place is *let go*:
its state is removed, nothing is kept for it any more, and taken back it is computed anew. Where it had read until stays known,
because it says which time of the table is closed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Ingested, Table
from strandline.engine.lake.formats import TABLES
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import hold

STATE_OF = "state"
"""The folder of a checkpoint with the state of its stream: rows of the past, which a request to forget may mean."""

AnyTable = TypeVar("AnyTable", bound=Table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """Why a table is no longer fed.

    Args:
        who: Who decided it.
        at: When.
        why: Why.
        place_kept: Whether its stream could go on where it ended.
    """

    who: str
    at: str
    why: str
    place_kept: bool = True

    @property
    def words(self) -> str:
        """Return who decided it, when and why."""
        return f"{self.who} at {self.at}: {self.why}"


def retired(lake: Lake) -> dict[str, Retirement]:
    """Return the retired tables of a lake by their names.

    Raises:
        DataError: The file cannot be read.
    """
    text = lake.retired.text()
    if text is None:
        return {}
    try:
        return {name: Retirement(**each) for name, each in json.loads(text).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(
            f"{lake.retired.name} of the lake cannot be read, so it is not known which tables are retired",
            hint=f"take {lake.retired.name} from a snapshot; without one remove it, and retire the tables again.",
            file=str(lake.retired),
        ) from error


def fed(tables: Iterable[AnyTable], lake: Lake) -> list[AnyTable]:
    """Return those of some tables that are not retired."""
    known = retired(lake)
    return [table for table in tables if table.id not in known]


class RetiredError(DefinitionError):
    """A table is to be fed that is retired."""


def refuse_retired(table: Table, lake: Lake) -> None:
    """Refuse to feed a table that is retired.

    Raises:
        RetiredError: It is.
    """
    if (known := retired(lake).get(table.id)) is not None:
        raise RetiredError(
            f"{table.id} is retired, by {known.words}",
            hint=f"`strandline retire {table.id} --undo` feeds it again; until then it is read and not fed.",
            table=table.id,
        )


@contextmanager
def changed(lake: Lake) -> Iterator[dict[str, Retirement]]:
    """Let one process at a time change what is retired; what decides it is read within, or it may be of before."""
    with hold(lake.lease_of("_retired")):
        known = retired(lake)
        before = dict(known)
        yield known
        if known != before:
            _put(known, lake)


def _put(known: Mapping[str, Retirement], lake: Lake) -> None:
    lake.retired.put(json.dumps({name: asdict(each) for name, each in known.items()}, indent=1))


def write_down(name: str, why: Retirement, lake: Lake) -> None:
    """Retire a table; code of before, which does not know that and would feed it, refuses the lake from now on.

    Raises:
        DefinitionError: It is retired already: of two persons who decide it at once, the first has signed.
    """
    lake.raise_to(TABLES)
    with changed(lake) as known:
        refuse_signed(name, known)
        known[name] = why


def refuse_signed(name: str, known: Mapping[str, Retirement]) -> None:
    """Refuse to retire a table once more.

    Raises:
        DefinitionError: It is retired.
    """
    if (found := known.get(name)) is not None:
        raise DefinitionError(
            f"{name} is retired already, by {found.words}",
            hint=f"`strandline retire {name} --undo` feeds it again.",
            table=name,
        )


def strike_out(name: str, lake: Lake) -> None:
    """Let a table be fed again."""
    with changed(lake) as known:
        known.pop(name, None)


def let_go(table: Table, lake: Lake) -> None:
    """Give up the place at which the stream of a retired table could go on, with what its state has; nothing where it is done.

    The record comes first: a state that a kill left in part is then read by no stream, and the next maintenance removes the rest.
    Both are done while no other process changes what is retired: a table that is fed again by then keeps its state.
    """
    if isinstance(table, Ingested):  # bronze has its place in its ledger
        return
    with hold(lake.lease_of("_retired")):
        known = retired(lake)
        if (found := known.get(table.id)) is None:
            return
        if found.place_kept:
            _put({**known, table.id: replace(found, place_kept=False)}, lake)
        (lake.checkpoint(table) / STATE_OF).remove()
