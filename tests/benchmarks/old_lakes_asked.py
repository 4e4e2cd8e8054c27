"""What a person, a schedule and Dagster ask of lakes of several ages, in turns: the seconds that each answer takes."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

from dagster import DagsterInstance, SensorDefinition, build_sensor_context

from fleet.bronze import device_telemetry as bronze
from fleet.gold import device_signal_10m as gold
from strandline.engine.lake.lake import Lake
from strandline_dagster.definitions import DEFINITIONS
from strandline_dagster.resources import RESOURCES
from tests.cli.typed import succeeded
from tests.support.instance import ephemeral

TIMES = 5
RECORD = f"{bronze.NEWER.name}/1/60000"
"""A record in the middle of the history; each partition has more than a hundred thousand."""

TYPED = {
    "status": ("status",),
    "ledger": ("ledger",),
    "history": ("history", gold.TABLE.id),
    "why": ("why", RECORD),
    "radar": ("radar",),
    "preflight": ("preflight",),
    "maintain --dry-run": ("maintain", "--dry-run"),
}


def asked(lakes: Mapping[str, Lake], address: str) -> dict[str, dict[str, float]]:
    """Return for each question the median of the seconds in each lake."""
    env = {"STRANDLINE_KAFKA": address}
    found = {
        f"`strandline {name}`": _in_turns(
            lakes,
            lambda lake, words=words: _typed(words, lake, env),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        )
        for name, words in TYPED.items()
    }
    instance = ephemeral()
    for sensor in DEFINITIONS.sensors or ():
        if type(sensor) is SensorDefinition:  # those that wait for runs look at no lake
            found[f"sensor {sensor.name}"] = _in_turns(
                lakes,
                lambda lake, sensor=sensor: _looked(sensor, lake, address, instance),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            )
    return found


def _in_turns(lakes: Mapping[str, Lake], ask: Callable[[Lake], None]) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in lakes}
    for number in range(TIMES + 1):
        for name, lake in lakes.items():
            begun = time.perf_counter()
            ask(lake)
            if number:  # the first fills the caches of the system
                taken[name].append(time.perf_counter() - begun)
    return {name: median(each) for name, each in taken.items()}


def _typed(words: tuple[str, ...], lake: Lake, env: Mapping[str, str]) -> None:
    succeeded(*words, "--lake", lake.root, env=env)


def _looked(sensor: SensorDefinition, lake: Lake, address: str, instance: DagsterInstance) -> None:
    resources = {
        name: each for name, each in RESOURCES.items() if name in sensor.required_resource_keys
    }
    with (
        _settings(STRANDLINE_LAKE=str(lake.root), STRANDLINE_KAFKA=address),
        build_sensor_context(
            instance=instance, definitions=DEFINITIONS, resources=resources
        ) as context,
    ):
        sensor.evaluate_tick(context)


@contextmanager
def _settings(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
