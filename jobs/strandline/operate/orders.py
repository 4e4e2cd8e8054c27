"""Which verbs are orders, which role each needs, and the one place at which an order is refused or written down.

The command line passes here with all that is typed, Dagster with what its runs do. What is shown unmasked is refused and written down
where it is read (jobs/strandline/engine/lake/order_log.py): a shell asks many questions.

An order that cannot be written down is not given where it reveals something. Any other goes on and says so: a full disk must keep
no one from repairing.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from strandline.core.errors import DataError, LakeError, TransientError
from strandline.engine.runtime import clock
from strandline.engine.runtime.profiles import secret_in
from strandline.engine.runtime.roles import COPY, Role, RoleError
from strandline.operate.listener import Says

if TYPE_CHECKING:
    from strandline.engine.lake.lake import Lake
    from strandline.engine.lake.order_log import Asked, Found, How, Order

SHELL, DAGSTER = "shell", "dagster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a verb needs.

    Args:
        role: The role that it needs as an order; as a question it needs READ. None where it touches no lake.
        by: It is an order where one of these options is given; always when empty, unless its role is READ.
        unless: It is a question where one of these is given, such as a dry run.
        raised: Options that need one more role.
        guarded: Of an option the values that need a role, also of a verb that needs none otherwise.
        copies: Options by which rows leave as a file, which is written down as well.
        hides: Options that name a person or have a secret, of which a hash is kept.
        lakes: The options that name its lake.
        waits: Whether it goes on while its store is away, of which it is to say so.
    """

    role: Role | None
    by: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    raised: Mapping[str, Role] = field(default_factory=dict)
    guarded: Mapping[str, Mapping[str, Role]] = field(default_factory=dict)
    copies: tuple[str, ...] = ()
    hides: tuple[str, ...] = ()
    lakes: tuple[str, ...] = ("lake",)
    waits: bool = False

    def is_order(self, given: Mapping[str, object]) -> bool:
        """Return whether it changes or reveals something, as it is typed."""
        if self.role is None or any(given.get(each) for each in self.unless):
            return False
        if self.role is Role.READ:
            return any(given.get(each) for each in self.copies)
        return not self.by or any(given.get(each) for each in self.by)

    def roles(self, given: Mapping[str, object]) -> list[Role]:
        """Return the roles that it needs, as it is typed."""
        kinds = [
            roles[str(given[name])]
            for name, roles in self.guarded.items()
            if str(given.get(name)) in roles
        ]
        if self.role is None:
            return kinds
        own = self.role if self.is_order(given) else Role.READ
        more = [role for name, role in self.raised.items() if given.get(name) is not None]
        return list(dict.fromkeys([own, *more, *kinds]))


NO_LAKE = Need(role=None)
"""Of what touches no lake, or shows how the programs of this machine are, which must be known while a store is away."""
ASKS = Need(role=Role.READ)
OPERATES = Need(role=Role.OPERATE)
REPAIRS = Need(role=Role.REPAIR)
UNMASKS = Need(role=Role.READ, raised={"unmasked": Role.UNMASK})
GOES = Need(role=Role.REPAIR, by=("go",))

NEEDS: Mapping[str, Need] = {
    "demo": NO_LAKE,  # it has one of its own, and empties no other
    "up": OPERATES,
    "down": OPERATES,
    "produce": OPERATES,
    "run": OPERATES,
    "stream": OPERATES,
    "resume": OPERATES,
    "pause": OPERATES,
    "restart": OPERATES,
    "drain": OPERATES,
    "publish": OPERATES,
    "catalog sync": OPERATES,
    "catalog status": ASKS,
    "catalog drop": OPERATES,
    "import": Need(role=Role.REPAIR, unless=("dry_run",)),
    "tables": ASKS,
    "ledger": ASKS,
    "cost": ASKS,
    "moments": ASKS,
    "moments show": ASKS,
    "moments note": OPERATES,
    "moments name": OPERATES,
    "moments drop": OPERATES,
    "query": Need(role=Role.READ, raised={"unmasked": Role.UNMASK}, copies=("to",)),
    "shell": UNMASKS,
    "notebook": ASKS,
    "mcp": ASKS,
    "mcp add-client": OPERATES,
    "mcp remove-client": OPERATES,
    "mcp clients": ASKS,
    "who": ASKS,
    "why": ASKS,
    "diff": ASKS,
    "drift": ASKS,
    "history": ASKS,
    "report": ASKS,
    "check": OPERATES,
    "verify": OPERATES,
    "compare": Need(role=Role.READ, lakes=("first", "second")),
    "backfill": REPAIRS,
    "rewind": GOES,
    "migrate": Need(role=Role.REPAIR, by=("go", "undo")),
    "rebuild": REPAIRS,
    "promote": REPAIRS,
    "undo": REPAIRS,
    "quarantine list": ASKS,
    "quarantine show": UNMASKS,
    "quarantine replay": Need(role=Role.REPAIR, unless=("dry_run",)),
    "quarantine discard": REPAIRS,
    "quarantine export": Need(role=Role.UNMASK),
    "gate": Need(role=Role.REPAIR, by=("open_",)),
    "mend": REPAIRS,
    "accept-loss": REPAIRS,
    "status": NO_LAKE,
    "probe": NO_LAKE,
    # As `who`: what others have asked has values in it that are masked.
    "logs": Need(role=None, guarded={"of": dict.fromkeys(("mcp", "unmasked"), Role.UNMASK)}),
    "metrics": Need(role=Role.READ, waits=True),
    "ui": OPERATES,
    "serve": OPERATES,
    "serve add-user": Need(role=Role.OPERATE, raised={"unmasked": Role.UNMASK}),
    "serve remove-user": OPERATES,
    "serve users": ASKS,
    "radar": ASKS,
    "try": ASKS,
    "preflight": ASKS,
    "maintain": Need(role=Role.OPERATE, unless=("dry_run",)),
    "snapshot": Need(role=Role.OPERATE, unless=("dry_run",)),
    "restore": Need(role=Role.REPAIR, unless=("dry_run",), lakes=("into",)),
    "expire": GOES,
    "forget": Need(
        role=Role.REPAIR,
        by=("go",),
        # What such a look finds says what is masked.
        raised={"where": Role.REPAIR, "text": Role.REPAIR},
        hides=("where", "text"),
    ),
    "retire": REPAIRS,
    "move": REPAIRS,
    "rules list": ASKS,
    "rules test": ASKS,
    "rules lint": NO_LAKE,
    "rules explain": ASKS,
    "rules backtest": Need(role=Role.OPERATE, by=("promote",)),
    "rules undo": OPERATES,
    "alerts": OPERATES,
    "deliver": Need(role=Role.OPERATE, hides=("to",)),
    "models list": ASKS,
    "models show": ASKS,
    "models train": OPERATES,
    "models evaluate": ASKS,
    "models promote": REPAIRS,
    "models rescore": REPAIRS,
    "models rollback": REPAIRS,
    "init": NO_LAKE,
    "new topic": ASKS,
    "new silver": ASKS,
    "new dimension": NO_LAKE,
    "new gold": NO_LAKE,
    "new alerts": NO_LAKE,
    "lint": NO_LAKE,
    "contract export": NO_LAKE,
    "contract diff": NO_LAKE,
    "contract import": NO_LAKE,
    "setup": NO_LAKE,
    "doctor": NO_LAKE,
    "explain": NO_LAKE,
}
"""Each verb that can be typed. A test fails while one is not here (tests/cli/test_who.py)."""

UNSAID = ("lake", "as_json")
"""Options that are no part of what was ordered."""

REASONS = ("because", "why", "unmasked", "open_")
"""Options whose value is the reason."""

PARTS = ("bronze", "silver", "gold", "static", "_who", "_kafka", "_logs")
"""What a folder has one of that is a lake; a folder that has none gets no log."""

_GIVEN: ContextVar[str | None] = ContextVar("order", default=None)
"""The order that this thread carries out: what belongs to it is not written down again."""


@contextmanager
def ordered(  # noqa: PLR0913  # what is ordered, where, how, and who hears of it
    verb: str,
    given: Mapping[str, object],
    *,
    says: Says,
    lake: "Lake | None" = None,
    over: str = SHELL,
    is_automatic: bool = False,
) -> Iterator[None]:
    """Refuse what the roles of the lake do not allow; write an order down before the block, and its end after it; of a question nothing.

    Args:
        verb: The verb.
        given: What was given with it, by the names of its options.
        says: Hears that it could not be written down.
        lake: The lake; the one that the options name when None.
        over: By which way it came.
        is_automatic: Whether no person gave it, as by a schedule: then it is written down where it changes rows after the fact.

    Raises:
        RoleError: The roles of the lake do not allow it, which is written down as well.
    """
    need = NEEDS[verb]
    wanted = need.roles(given)
    if not wanted or _GIVEN.get() is not None:
        yield
        return
    order = _made(verb, need, given, over)
    for each in [lake] if lake else _lakes_of(need, given):
        _refuse(each, order, wanted, says)
    if not need.is_order(given) or (is_automatic and need.role is not Role.REPAIR):
        yield
        return
    (where,) = [lake] if lake else _lakes_of(need, given)
    _begin(where, order, says, reveals=need.role is Role.UNMASK)
    within = _GIVEN.set(order.id)
    try:
        yield
    except BaseException as error:
        _end(where, order, says, error, is_quiet=bool(need.hides))
        if isinstance(error, LakeError):
            _note_moment(where, need, verb, says)
        raise
    else:
        _end(where, order, says, None, is_quiet=False)
        _note_moment(where, need, verb, says)
    finally:
        _GIVEN.reset(within)


def orders_of(lake: "Lake", asked: "Asked") -> "Found":
    """Return the newest orders that are wanted; what was asked unmasked is shown to those who may see it unmasked.

    For the others such a question is found by the names of tables alone: by any word they would learn what is in it.
    """
    from strandline.engine.lake.order_log import HIDDEN, newest, roles_of  # noqa: PLC0415  # as below

    if roles_of(lake).allows(clock.login(), Role.UNMASK):
        return newest(lake, asked)
    sees = asked.table is None or _is_table(lake, asked.table)
    found = newest(lake, replace(asked, sees=sees))
    found.orders = [
        replace(each, asked=dict.fromkeys(each.asked, HIDDEN), message="")
        if each.is_hidden
        else each
        for each in found.orders
    ]
    return found


def _is_table(lake: "Lake", name: str) -> bool:
    """Return whether a name is that of a table, or of what else a question can name."""
    from strandline import catalog  # noqa: PLC0415  # few who ask may not unmask

    from strandline.engine.ask.lake_views import sources  # noqa: PLC0415  # as above

    return name in sources(catalog.tables(), lake)


def since_of(text: str | None) -> datetime | None:
    """Parse since when: a moment, or how long ago.

    Raises:
        DefinitionError: It is neither.
    """
    if text is None:
        return None
    from strandline.core.kind import in_utc  # noqa: PLC0415  # it imports PySpark, for which a probe should not wait

    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError:
        from strandline.operate.lakes import seconds  # noqa: PLC0415  # as below

        return clock.now() - timedelta(seconds=seconds(text))


def shown_unmasked(lake: "Lake", asked: Mapping[str, str | None], why: str) -> None:
    """Write a question of this user down before it is answered unmasked.

    Raises:
        DefinitionError: No reason is given, or the log cannot be written.
    """
    from strandline.engine.lake.lake import unwritable  # noqa: PLC0415  # as above
    from strandline.engine.lake.order_log import write_down  # noqa: PLC0415  # as above

    try:
        write_down(lake, asked, who=clock.login(), at=clock.now(), why=why, over=SHELL)
    except OSError as error:
        raise unwritable(lake.root, error) from error


def _lakes_of(need: Need, given: Mapping[str, object]) -> "list[Lake]":
    from strandline.operate import lakes  # noqa: PLC0415  # a verb without a lake need not import one

    named = [given.get(name) for name in need.lakes]
    return [lakes.configured(None if each is None else str(each))[1] for each in named]


def _refuse(lake: "Lake", order: "Order", wanted: Sequence[Role], says: Says) -> None:
    """Refuse an order or a question for which a role is missing.

    Raises:
        RoleError: It is; the attempt is written down.
    """
    from strandline.engine.lake import order_log  # noqa: PLC0415  # as above

    try:
        _ask_briefly(lake)
        roles = order_log.roles_of(lake)
    except TransientError:
        if NEEDS[order.verb].waits:
            return
        raise
    try:
        for each in wanted:
            roles.refuse(order.who, each, f"`strandline {order.verb}`")
    except RoleError as error:
        try:
            if _is_lake(lake):
                order_log.refused(lake, order, clock.now(), error)
        except (OSError, LakeError) as unwritten:
            says(f"the attempt is not in the log of orders: {unwritten}")
        raise


def _made(verb: str, need: Need, given: Mapping[str, object], over: str) -> "Order":
    from strandline.engine.lake.order_log import order_of  # noqa: PLC0415  # as above

    said = {name: value for name, value in given.items() if _is_said(name, value, need)}
    tables = [each for name in ("table", "tables") for each in _names(said.pop(name, None))]
    why = next((str(said.pop(name)) for name in REASONS if name in said), "")
    asked = {
        name.rstrip("_"): _hash(value) if name in need.hides or secret_in(str(value)) else value
        for name, value in said.items()
    }
    role = str(need.role) if need.role is not Role.READ else COPY
    return order_of(
        verb,
        who=clock.login(),
        at=clock.now(),
        over=over,
        role=role,
        asked=asked,
        tables=tables,
        why=why,
    )


def _is_said(name: str, value: object, need: Need) -> bool:
    is_none = value is None or value is False or value in ((), [], "")
    return not is_none and name not in (*UNSAID, *(n for n in need.lakes if n == "lake"))


def _names(value: object) -> Sequence[str]:
    if value is None:
        return ()
    return [value] if isinstance(value, str) else [str(each) for each in value]  # type: ignore[attr-defined]  # a list of names


def _hash(value: object) -> str:
    return f"sha256 {hashlib.sha256(str(value).encode()).hexdigest()[:16]}"


def _begin(lake: "Lake", order: "Order", says: Says, *, reveals: bool) -> None:
    """Write an order down, where its lake is there."""
    from strandline.engine.lake import order_log  # noqa: PLC0415  # as above
    from strandline.engine.lake.lake import unwritable  # noqa: PLC0415  # as above

    try:
        if _is_lake(lake):
            order_log.write(lake, order, clock.now())
    except OSError as error:
        if reveals:
            raise unwritable(lake.root, error) from error
        says(f"the order is not in the log of orders, which cannot be written: {error}")
    except LakeError as error:
        if reveals:
            raise
        says(f"the order is not in the log of orders: {error.message}")


def _end(
    lake: "Lake", order: "Order", says: Says, error: BaseException | None, *, is_quiet: bool
) -> None:
    """Write down how an order ended; a lake that came meanwhile has its first order so."""
    from strandline.engine.lake import order_log  # noqa: PLC0415  # as above

    how, message = _how(error)
    try:
        if _is_lake(lake):
            order_log.end(lake, order, clock.now(), how, "" if is_quiet else message)
    except (OSError, LakeError) as away:
        says(f"how the order ended is not in the log of orders: {away}")


def _note_moment(lake: "Lake", need: Need, verb: str, says: Says) -> None:
    """Note the moment of after a repair: a question about a time just after it would be answered by the rows of before."""
    if need.role is not Role.REPAIR or "lake" not in need.lakes:
        return  # a lake that was restored has moments of its own
    from strandline import catalog  # noqa: PLC0415  # as above

    from strandline.engine.ask.moments import note_or_reason, noted  # noqa: PLC0415  # as above

    try:
        # One that never had a moment gets none by a repair: nothing there is read at one.
        why = note_or_reason(lake, catalog.tables(), verb) if noted(lake) else ""
    except (OSError, LakeError) as error:
        why = str(error)
    if why:
        says(f"no moment is noted: {why}")


def _how(error: BaseException | None) -> "tuple[How, str]":
    from strandline.engine.lake.order_log import How  # noqa: PLC0415  # as above

    code = getattr(error, "exit_code", getattr(error, "code", None))
    if error is None or (not isinstance(error, LakeError) and code == 0):
        return How.DONE, ""
    if isinstance(error, KeyboardInterrupt):
        return How.STOPPED, ""
    if isinstance(error, LakeError):
        return How.FAILED, error.message.partition("\n")[0]
    return How.FAILED, type(error).__name__ if code is None else f"exit code {code}"


def _is_lake(lake: "Lake") -> bool:
    """Return whether there is a lake that this program may write.

    Raises:
        StoreAwayError: Its store does not answer for as long as a person waits; a stream waits longer, and this is asked before it.
    """
    from strandline.engine.lake.lake import RESTORING, newer  # noqa: PLC0415  # as above

    _ask_briefly(lake)
    names = lake.root.names()
    try:
        return bool({*PARTS} & {*names}) and RESTORING not in names and not newer(lake.formats)
    except DataError:  # the verb itself says that the file cannot be read
        return False


def _ask_briefly(lake: "Lake") -> None:
    """Ask a store for no longer than a person waits; a folder answers at once.

    Raises:
        StoreAwayError: It does not answer.
    """
    if not lake.root.is_local:
        from strandline.engine.lake.object_files import refuse_silent  # noqa: PLC0415  # few lakes are on a store, and its import takes time

        refuse_silent(str(lake.formats))
