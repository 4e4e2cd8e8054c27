"""Where our definitions are: alone in a code location, or a guest in the one of a project that has definitions of its own.

A guest brings nothing that its host has only one of. Our jobs carry their executor, so that the host's default stays its own;
resources, and on request jobs, sensors, steps and keys, have names that the host's do not have; what works on the whole of Dagster,
such as the purge of its history, is left out; alarms are about our runs alone.

The decorators are Dagster's with that done, so that no module has to know of it. All is decided before the first of our
definitions is made, once for a process: code is loaded once, and one process has one lake.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import dagster
from dagster import (
    AssetChecksDefinition,
    AssetKey,
    AssetsDefinition,
    DefaultSensorStatus,
    Definitions,
    JobDefinition,
    OpDefinition,
    ScheduleDefinition,
    SensorDefinition,
    in_process_executor,
)

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.settings import choose, chosen_profile, settings
from strandline.project import project as found_project

RESOURCES = {
    "lake": "strandline_lake",
    "spark": "strandline_session",
}
"""The names of our resources in the definitions of a host, which may have a ``spark`` of its own."""
TABLES = "strandline_tables"
"""The resource by which assets of a host read our tables."""
NAME = re.compile(r"[A-Za-z0-9_]+")
FIRST = "strandline_dagster.resources"
"""Imported before every module with definitions."""
DEFINITIONS = "strandline_dagster.definitions"

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How our definitions are placed.

    Args:
        is_guest: Whether the code location has other definitions as well.
        key_prefix: What the keys of our assets begin with.
        job_prefix: What the names of our jobs, schedules, sensors and steps begin with.
        tables: The tables that are shown, as patterns such as ``gold.*``; all when empty.
        sensors: Whether our sensors run by themselves.
    """

    is_guest: bool = False
    key_prefix: tuple[str, ...] = ()
    job_prefix: str = ""
    tables: tuple[str, ...] = ()
    sensors: bool = True


_placed: list[Placement] = []
"""That of this process, once it is decided."""


def placement() -> Placement:
    """Return how they are placed in this process: alone, where no other place was asked for."""
    return _placed[0] if _placed else Placement()


def definitions(  # noqa: PLR0913  # what a component's YAML may say
    *,
    project: str | Path | None = None,
    profile: str | None = None,
    lake: str | None = None,
    tables: Sequence[str] = (),
    key_prefix: str | Sequence[str] = (),
    job_prefix: str = "",
    schedules: bool | None = None,
    sensors: bool = True,
) -> Definitions:
    """Return our definitions, to be merged with those of a code location that has others.

    Args:
        project: The folder with ``strandline.toml``; found from the working folder upwards when absent.
        profile: The profile of it.
        lake: The folder or address of the lake; that of the profile when absent.
        tables: The tables that are shown and worked on, as names or patterns such as ``gold.*``; all when empty.
        key_prefix: What the keys and groups of our assets begin with.
        job_prefix: What the names of our jobs, schedules and sensors begin with, such as ``lake_``.
        schedules: Whether all our schedules run by themselves, or none; each as its code says when absent.
        sensors: Whether our sensors do, which report what no run of this Dagster made, and watch the streams.

    Raises:
        DefinitionError: This process has definitions of ours already that are placed otherwise, or a name cannot be one.
    """
    parts = [key_prefix] if isinstance(key_prefix, str) else key_prefix
    prefix = tuple(each for each in parts if each)
    for each in [*prefix, *([job_prefix] if job_prefix else [])]:
        if NAME.fullmatch(each) is None:
            raise DefinitionError(
                f"{each!r} cannot begin names in Dagster",
                hint="write it in letters, digits and underscores, such as lake_.",
            )
    use(project=project, profile=profile, lake=lake, schedules=schedules)
    _place(
        Placement(
            is_guest=True,
            key_prefix=prefix,
            job_prefix=job_prefix,
            tables=tuple(tables),
            sensors=sensors,
        )
    )
    return ours()


def ours() -> Definitions:
    """Return our definitions. They are made of all other modules here, as these were placed, and so are imported by name."""
    made: Definitions = importlib.import_module(DEFINITIONS).DEFINITIONS
    return made


def use(
    *,
    project: str | Path | None = None,
    profile: str | None = None,
    lake: str | None = None,
    schedules: bool | None = None,
) -> None:
    """Let this process work for a project, with a profile of it and a lake; what is absent stays as it is.

    By variables of the environment, because the programs that this process starts, such as a stream, work for them too. Our resources
    read them at each run, so what was not said is decided as well once our definitions are made: they are of the lake of the settings.

    Raises:
        DefinitionError: It works for another already.
    """
    wanted = {
        "project": str(Path(project).expanduser().absolute()) if project is not None else None,
        "profile": profile,
        "lake": lake,
        "schedules": None if schedules is None else str(schedules).lower(),
    }
    said = {name: value for name, value in wanted.items() if value is not None}
    for name, value in said.items():
        had = _used.get(name, value)
        if name not in _used and FIRST in sys.modules:
            had = _decided(name, value)
        if had != value:
            raise DefinitionError(
                f"this process works with {had or 'no'} as its {name} already, and is to work with {value}",
                hint="give each lake a code location of its own: Dagster shows both, and edges between them.",
            )
    for name, value in said.items():
        _used[name] = value
        choose(name, value)


_used: dict[str, str] = {}


def _decided(name: str, value: str) -> str:
    """Return what the settings say of a part, as it was written where both mean the same; empty where they say nothing."""
    found = settings()
    own = found_project()
    decided = {
        "lake": found.lake,
        "profile": chosen_profile() or "",
        "project": str(own.root) if own else "",
        "schedules": "" if found.schedules is None else str(found.schedules).lower(),
    }[name]
    is_same = False
    if name == "lake":
        is_same = settings(lake=value).lake == decided
    elif name == "project" and own:
        is_same = Path(value).resolve() == own.root.resolve()
    return value if is_same else decided


def _place(wanted: Placement) -> None:
    if FIRST in sys.modules and placement() != wanted:
        raise DefinitionError(
            "this process has Strandline's definitions already, placed otherwise",
            hint="call definitions(), or load the component, once in a code location, and before other modules of "
            "strandline_dagster are imported; give another lake a code location of its own.",
        )
    _placed[:] = [wanted]


def asset_key(*parts: str) -> AssetKey:
    """Return the key of an asset of ours."""
    return AssetKey([*placement().key_prefix, *parts])


def group(name: str) -> str:
    """Return the name of a group of our assets, which are apart from a host's wherever their keys are."""
    return "_".join([*placement().key_prefix, name])


def titled(name: str) -> str:
    """Return the name of a job, a schedule, a sensor or a step of ours."""
    return placement().job_prefix + name


def named(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources under the names that they have here."""
    return {_here(name): each for name, each in resources.items()}


def _here(name: str) -> str:
    return RESOURCES.get(name, name) if placement().is_guest else name


def op(**options: Any) -> Callable[[Function], OpDefinition]:  # noqa: ANN401  # Dagster's own
    """Make a step."""
    return lambda fn: dagster.op(**_titled(fn, options))(renamed(fn))


def job(**options: Any) -> Callable[[Function], JobDefinition]:  # noqa: ANN401  # as above
    """Make a job, whose runs are one process: an executor with more would start a JVM for every step."""
    return lambda fn: dagster.job(executor_def=in_process_executor, **_titled(fn, options))(fn)


def multi_asset(**options: Any) -> Callable[[Function], AssetsDefinition]:  # noqa: ANN401  # as above
    """Make assets."""
    return lambda fn: dagster.multi_asset(**_titled(fn, options))(renamed(fn))


def asset_check(**options: Any) -> Callable[[Function], AssetChecksDefinition]:  # noqa: ANN401  # as above
    """Make a check; its name is one of its asset's, and needs no prefix."""
    return lambda fn: dagster.asset_check(**options)(renamed(fn))


def multi_asset_check(**options: Any) -> Callable[[Function], AssetChecksDefinition]:  # noqa: ANN401  # as above
    """Make several."""
    return lambda fn: dagster.multi_asset_check(**_titled(fn, options))(renamed(fn))


def schedule(**options: Any) -> Callable[[Function], ScheduleDefinition]:  # noqa: ANN401  # as above
    """Make a schedule."""
    return lambda fn: dagster.schedule(**_titled(fn, options))(renamed(fn))


def sensor(**options: Any) -> Callable[[Function], SensorDefinition]:  # noqa: ANN401  # as above
    """Make a sensor, which runs by itself."""
    return lambda fn: dagster.sensor(
        **_titled(fn, options), default_status=_status(DefaultSensorStatus)
    )(renamed(fn))


def run_failure_sensor(**options: Any) -> Callable[[Function], SensorDefinition]:  # noqa: ANN401  # as above
    """Make a sensor of failed runs."""
    return lambda fn: dagster.run_failure_sensor(
        **_titled(fn, options), default_status=_status(DefaultSensorStatus)
    )(fn)


def _status(kind: type[DefaultSensorStatus]) -> DefaultSensorStatus:
    return kind.RUNNING if placement().sensors else kind.STOPPED


def _titled(fn: Function, options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, "name": titled(options.get("name") or fn.__name__)}


def renamed(fn: Function) -> Function:
    """Let a function take its resources under the names that they have here; Dagster finds them by its arguments."""
    signature = inspect.signature(fn)
    theirs = {name: _here(name) for name in signature.parameters if _here(name) != name}
    if not theirs:
        return fn
    own = {there: name for name, there in theirs.items()}

    def back(words: Mapping[str, Any]) -> dict[str, Any]:
        return {own.get(name, name): each for name, each in words.items()}

    @wraps(fn)
    def yields(*args: Any, **words: Any) -> Iterator[Any]:  # noqa: ANN401  # handed on as they are
        yield from fn(*args, **back(words))

    @wraps(fn)
    def returns(*args: Any, **words: Any) -> Any:  # noqa: ANN401  # as above
        return fn(*args, **back(words))

    # Dagster asks each function whether it is a generator.
    made: Any = yields if inspect.isgeneratorfunction(fn) else returns
    parameters = signature.parameters.items()
    made.__signature__ = signature.replace(
        parameters=[each.replace(name=theirs.get(name, name)) for name, each in parameters]
    )
    made.__annotations__ = {
        theirs.get(name, name): each for name, each in fn.__annotations__.items()
    }
    return made  # type: ignore[no-any-return]  # a function, of which attributes were set
