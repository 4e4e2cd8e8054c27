"""The play of a project: the module ``play`` of its package, whose ``events(count, until)`` makes events of play.

Its arguments after the star that have a default are options of ``strandline produce``: what an argument is about and its bounds
are written beside its type, as in ``Annotated[float, "Share of orders that are broken.", (0.0, 1.0)]``. One of the name
``at_once`` has no default, and gets the number of records that a play of many should make together.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from types import NoneType, UnionType
from typing import Annotated, Union, cast, get_args, get_origin, get_type_hints

from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError
from strandline.core.topic import Foreseen, Played, Record, Records
from strandline.project import package

KINDS = (bool, int, float, str, datetime, timedelta)
"""The types of an option."""
AT_ONCE = "at_once"
TAKEN = ("events", "until", "rate", "truth", "make_topics", "lake", "json", "as_json", "help")
"""Options of the verb itself."""
SHAPE = "let `events(count, until)` yield strandline.Record, the oldest first."


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayOption:
    """An argument of ``events`` that is an option of the verb.

    Args:
        name: Its name.
        kind: Its type, which may be without a value.
        default: Its value where it is not typed.
        about: What it is about.
        low: The least value.
        high: The largest value.
    """

    name: str
    kind: type
    default: object
    about: str | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """The events of a project.

    Args:
        module: The module that makes them.
        events: Its function.
        options: The options of that function.
        takes_size: Whether it wants to know how many records to make together.
    """

    module: str
    events: Callable[..., Played]
    options: tuple[PlayOption, ...]
    takes_size: bool

    def played(
        self, count: int, until: datetime, at_once: int, options: Mapping[str, object]
    ) -> Played:
        """Return its events; nothing of them is made yet.

        Raises:
            DefinitionError: It refuses an option, or fails.
        """
        size = {AT_ONCE: at_once} if self.takes_size else {}
        try:
            made = self.events(count, until, **size, **options)
        except LakeError:
            raise
        except Exception as error:
            raise catalog.unreadable(error, self.module) from error
        if not hasattr(made, "__iter__"):
            raise DefinitionError(
                f"{self.module}: events returns {made!r}, which has no records", hint=SHAPE
            )
        return made

    def taken(self, made: Played) -> Iterator[Record | Records]:
        """Yield its events.

        Raises:
            DefinitionError: It fails on the way.
        """
        try:
            yield from made
        except LakeError:
            raise
        except Exception as error:
            where = catalog.unreadable(error, self.module)
            raise DefinitionError(
                where.message,
                hint="correct that line; what was made before it may be in the topics.",
                module=self.module,
            ) from error

    def refuse_unforeseen(self, made: Played) -> None:
        """Refuse to write down what a play does not say.

        Raises:
            DefinitionError: It does not say what becomes of its events.
        """
        if not isinstance(made, Foreseen):
            raise DefinitionError(
                f"{self.module} does not say what becomes of its events, so there are no expected counts",
                hint="leave --truth out; or let `events` return an object with a method `expected()`, "
                "which returns a strandline.Counts for each table.",
            )


def name() -> str:
    """Return the name of the module that a project's play has."""
    return f"{package()}.play"


def is_there() -> bool:
    """Return whether the project has a play; one that cannot be read is there."""
    try:
        return find_spec(name()) is not None
    except Exception:  # noqa: BLE001  # the package cannot be imported: who asks for the play is given the reason
        return True


def found() -> Play:
    """Return the play of the project.

    Raises:
        DefinitionError: It has none, or one that cannot be read.
    """
    module = name()
    if not is_there():
        raise DefinitionError(
            f"this project has no events to play: there is no module {module}",
            hint="write it, with a function `events(count, until)` that yields strandline.Record; "
            "or send events of your own to your own topics, then `strandline run`.",
        )
    try:
        events = getattr(importlib.import_module(module), "events", None)
    except LakeError:
        raise
    except Exception as error:
        raise catalog.unreadable(error, module) from error
    if not callable(events):
        raise DefinitionError(f"{module} has no function `events`", hint=SHAPE)
    options, takes_size = _options(events, module)
    return Play(
        module=module,
        events=cast("Callable[..., Played]", events),
        options=options,
        takes_size=takes_size,
    )


def _options(events: Callable[..., object], module: str) -> tuple[tuple[PlayOption, ...], bool]:
    named = [
        each
        for each in inspect.signature(events).parameters.values()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    try:
        hints = get_type_hints(events, include_extras=True)
    except Exception as error:
        raise catalog.unreadable(error, module) from error
    own = [each for each in named if each.name != AT_ONCE]
    options = tuple(_option(each, hints.get(each.name), module) for each in own)
    return options, len(own) < len(named)


def _option(argument: inspect.Parameter, hint: object, module: str) -> PlayOption:
    where = f"{module}: the argument {argument.name} of events"
    if argument.name in TAKEN:
        raise DefinitionError(
            f"{where} has the name of an option that every play has", hint="give it another name."
        )
    if argument.default is inspect.Parameter.empty:
        raise DefinitionError(
            f"{where} has no default", hint="give it one: who types nothing gets that."
        )
    bare, *beside = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    kinds = set(get_args(bare) if get_origin(bare) in {Union, UnionType} else (bare,)) - {NoneType}
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind not in KINDS:
        raise DefinitionError(
            f"{where} has a type that no option has: {hint!r}",
            hint=f"an option is one of {', '.join(each.__name__ for each in KINDS)}, or None.",
        )
    about = next((each for each in beside if isinstance(each, str)), None)
    low, high = next((each for each in beside if isinstance(each, tuple)), (None, None))
    return PlayOption(
        name=argument.name,
        kind=cast("type", kind),
        default=argument.default,
        about=about,
        low=low,
        high=high,
    )
