"""What is needed and what the settings name, each thing tried: with what to type where it is missing.

A port that takes connections is enough where a request would do something: run a job, post a notice, send an event. A schema
registry is asked for a schema, because that also tries its credentials.
"""

import re
import socket
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from strandline import catalog

from strandline.core.errors import LakeError
from strandline.engine.flow.readers import recreated, topic_readers
from strandline.engine.kafka import broker
from strandline.engine.kafka.topic_log import WAY
from strandline.engine.lake.lake import refuse_unsafe
from strandline.engine.runtime.settings import (
    Settings,
    chosen_profile,
    lineage_namespace,
    settings,
    telemetry,
    telemetry_endpoint,
)
from strandline.engine.runtime.spark_session import allowed, carried, refuse_too_many
from strandline.operate import lakes
from strandline.project import project, refuse_without
from strandline_infra import installation, setup
from strandline_infra.setup import Check

# Which extras of the wheel a project uses.


ASKED = re.compile(r"strandline\s*\[([^\]]*)\]")
FILE = "pyproject.toml"


def used(lake: str | None = None) -> dict[str, str]:
    """Return each extra that the project uses, with what it is used for.

    A package of settings that cannot be read names none; what is wrong with them is said where they are needed.
    """
    found = dict.fromkeys(_asked(), f"{FILE} asks for it")
    if catalog.declares("alerts"):
        found.setdefault("alerts", "the project declares alerts")
    for static in catalog.statics():
        if static.query is not None:
            found.setdefault("postgres", f"{static.id} asks a database")
    return {**found, **dict(_of_settings(lake))}


def _asked() -> Iterator[str]:
    """Yield the extras that the project's own packages are installed with."""
    found = project()
    file = found.root / FILE if found else None
    if file is None or not file.is_file():
        return
    try:
        asked = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except ValueError:
        return  # pip refuses it, with the line
    groups = [asked.get("dependencies", ()), *asked.get("optional-dependencies", {}).values()]
    for requirement in (each for group in groups for each in group):
        if named := ASKED.match(requirement):
            names = (each.strip() for each in named[1].split(","))
            yield from (each for each in names if each in installation.EXTRAS)


def _of_settings(lake: str | None) -> Iterator[tuple[str, str]]:
    if lineage_namespace() is not None:
        yield "lineage", "OpenLineage is configured"
    if telemetry_endpoint():
        yield "otel", "OpenTelemetry is configured"
    try:
        found = settings(lake=lake)
    except LakeError:
        return
    if found.postgres is not None:
        yield "postgres", "STRANDLINE_POSTGRES is set"
    if found.schema_registry is not None:
        yield "registry", "STRANDLINE_SCHEMA_REGISTRY is set"


RULES = "strandline.operate.alerts.examples"
"""Tries a folder of rules, in a project that has alerts."""


def checks(lake: str | None) -> list[Check]:
    """Try everything that Strandline needs, and each thing that the settings name."""
    found = [*setup.state(), _extras(lake), _tables(), _settings(lake)]
    if not found[-1].ok:  # the others would repeat its mistakes
        return found
    there = _lake(lake)
    # A store that does not answer was asked once, and holds no question after it.
    is_away = not there.ok and not lakes.configured(lake)[1].root.is_local
    asks = (_history,) if is_away else (_room, _kafka, _history)
    return [*found, there, *(ask(lake) for ask in asks), *outside(settings(lake=lake))]


def _extras(lake: str | None) -> Check:
    """Check that what the project uses is installed; without `quality` nothing but Data Docs is missing, so no project must have it."""
    asked = used(lake)
    without = {name: why for name, why in asked.items() if not installation.is_installed(name)}
    if without:
        detail = "; ".join(f"{name} is not installed: {why}" for name, why in without.items())
        hint = f"install what is missing: {installation.command(*without)}."
        return Check(name="extras", ok=False, detail=detail, hint=hint)
    there = [name for name in installation.EXTRAS if installation.is_installed(name)]
    uses = ", ".join(sorted(asked)) or "none"
    return Check(
        name="extras",
        ok=True,
        detail=f"the project uses {uses}; {', '.join(there) or 'none'} installed",
    )


def _tables() -> Check:
    """Check that every module of a table can be imported, without which no verb works, and that a stream carries them all."""
    try:
        found = catalog.tables()
    except LakeError as error:
        return Check(name="tables", ok=False, detail=error.message, hint=error.hint)
    files = allowed()
    says = (
        f"{len(found):,} are declared; {files:,} open files carry {carried(files):,} in one stream"
    )
    try:
        refuse_too_many(len(found))
    except LakeError as error:
        return Check(name="tables", ok=False, detail=says, hint=error.hint)
    return Check(name="tables", ok=True, detail=says, hint="")


def _settings(lake: str | None) -> Check:
    try:
        found, _ = lakes.configured(lake)
    except LakeError as error:
        return Check(name="settings", ok=False, detail=error.message, hint=error.hint)
    chosen = chosen_profile()
    of = f"profile {chosen}: " if chosen else ""
    detail = f"{of}{found.cores} cores, {found.memory} of memory"
    return Check(name="settings", ok=True, detail=detail, hint="")


def _lake(lake: str | None) -> Check:
    try:
        _, where = lakes.asked(lake)
        if where.root.exists():
            where.open_for_writing()
            return Check(name="lake", ok=True, detail=str(where.root), hint="")
        if not where.root.is_local:
            refuse_unsafe(where.root, remembers=False)
    except LakeError as error:
        return Check(name="lake", ok=False, detail=error.message, hint=error.hint)
    return Check(name="lake", ok=True, detail=f"{where.root} will be made when needed", hint="")


def _room(lake: str | None) -> Check:
    """Check the disk; a full one lets nothing else be seen as ill, because nothing can be written down."""
    _, where = lakes.configured(lake)
    if where.root.is_local and not where.root.exists():
        return Check(name="room", ok=True, detail="nothing is on its disk yet", hint="")
    said = where.room_left()
    hint = "make room: `df` shows the disk, `strandline maintain --dry-run` what belongs to nothing (infra/runbooks/README.md)."
    return Check(name="room", ok=not where.is_short_of_room(), detail=said, hint=hint)


def _kafka(lake: str | None) -> Check:
    try:
        found, where = lakes.configured(lake)
        address = lakes.address(found, where)
        if address is None:
            detail = "the lake's broker is not running; `strandline up` starts it"
            return Check(name="kafka", ok=True, detail=detail, hint="")
        broker.check_reachable(address, found.kafka_options)
        if where.root.exists():
            gone = recreated(topic_readers(where), address, found.kafka_options)
            if lost := [each for each in gone.values() if each.level.is_alarming]:
                says = "; ".join(f"{each.reader}, {each.source}: {each.says}" for each in lost)
                return Check(name="kafka", ok=False, detail=says, hint=WAY)
    except LakeError as error:
        return Check(name="kafka", ok=False, detail=error.message, hint=error.hint)
    return Check(name="kafka", ok=True, detail=f"{address} answers", hint="")


def _history(lake: str | None) -> Check:
    try:
        found, _ = lakes.configured(lake)
        if found.postgres is not None:
            refuse_without("postgres")
            from strandline.engine.service.dagster_process import check_reachable  # noqa: PLC0415  # part of an extra

            check_reachable(found.postgres)
    except LakeError as error:
        return Check(name="history", ok=False, detail=error.message, hint=error.hint)
    kept = "in the lake" if found.postgres is None else "in PostgreSQL, which answers"
    return Check(name="history", ok=True, detail=f"Dagster's runs are kept {kept}", hint="")


PATIENCE = 3.0
PORTS = {"https": 443, "http": 80, "k8s": 443, "spark": 7077}


def outside(found: Settings) -> list[Check]:
    """Try what the settings name; what they do not name is not listed."""
    checks = []
    if found.master is not None:
        checks.append(_cluster(found.master))
    if found.executor_archive is not None:
        checks.append(_packages(found.executor_archive))
    if found.schema_registry is not None:
        checks.append(_registry(found.schema_registry, found.schema_registry_options))
    if found.webhook is not None:
        checks.append(_webhook(found.webhook))
    if found.rules is not None and catalog.declares("alerts"):
        checks.append(_rules(found.rules))
    if lineage_namespace() is not None:
        checks.append(_lineage())
    if telemetry_endpoint():
        checks.append(_telemetry())
    return checks


def _cluster(master: str) -> Check:
    """Connect to a master; a standalone cluster may have several, of which one is enough."""
    scheme, _, rest = master.partition("://")
    inner, _, address = rest.rpartition("://")
    hosts = [each.strip("/").partition(":") for each in address.split(",")]
    places = [(host, int(port or PORTS[inner or scheme])) for host, _, port in hosts]
    reasons = [_unreachable(host, port) for host, port in places]
    if not all(reasons):
        return Check(name="cluster", ok=True, detail=f"{master} takes connections")
    return Check(
        name="cluster",
        ok=False,
        detail=f"{master} takes no connection: {reasons[0]}",
        hint="see that the cluster runs and that its port is open from here, or correct `master`.",
    )


def _packages(archive: Path) -> Check:
    if archive.is_file():
        return Check(name="executor_python", ok=True, detail=f"{archive} is there")
    return Check(
        name="executor_python",
        ok=False,
        detail=f"there is no archive {archive}",
        hint="`python -m strandline_infra.programs packages FILE.tar.gz` makes one, or correct `executor_python`.",
    )


def _registry(address: str, options: Mapping[str, str]) -> Check:
    from strandline.engine.kafka.schema_registry import Registry  # noqa: PLC0415  # most settings name none

    try:
        with closing(Registry(address, options)) as registry:
            registry.check_reachable()
    except LakeError as error:
        return Check(name="schema_registry", ok=False, detail=error.message, hint=error.hint)
    return Check(name="schema_registry", ok=True, detail=f"{address} answers")


def _webhook(address: str) -> Check:
    """Connect to the receiver and send nothing; its path may be a secret, and is not shown."""
    return _takes_connections("webhook", address, "`webhook`")


def _lineage() -> Check:
    """Connect to the receiver of lineage, where it has an address."""
    try:
        refuse_without("lineage")
        # Not imported above: its client takes most of a second.
        from strandline.engine.flow.lineage_events import receiver  # noqa: PLC0415  # as above

        kind, address = receiver()
    except LakeError as error:
        return Check(name="lineage", ok=False, detail=error.message, hint=error.hint)
    if address is None:
        return Check(name="lineage", ok=True, detail=f"by {kind}, which was not tried")
    return _takes_connections("lineage", address, "OpenLineage's settings")


def _telemetry() -> Check:
    """Connect to the receiver of traces and figures."""
    try:
        sends = telemetry()
        refuse_without("otel")
    except LakeError as error:
        return Check(name="telemetry", ok=False, detail=error.message, hint=error.hint)
    if not sends:
        return Check(
            name="telemetry", ok=True, detail="switched off by OpenTelemetry's own settings"
        )
    return _takes_connections("telemetry", telemetry_endpoint(), "OpenTelemetry's settings")


def _takes_connections(name: str, url: str, setting: str) -> Check:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        detail, hint = "its address cannot be read", f"correct {setting}."
        return Check(name=name, ok=False, detail=detail, hint=hint)
    reason = _unreachable(host, port)
    if reason:
        return Check(
            name=name,
            ok=False,
            detail=f"{host}:{port} takes no connection: {reason}",
            hint=f"see that it runs and that its port is open from here, or correct {setting}.",
        )
    return Check(name=name, ok=True, detail=f"{host}:{port} takes connections; nothing was sent")


def _rules(folder: str) -> Check:
    # By its name: nothing but alerts imports alerts.
    found: tuple[str, str] = import_module(RULES).tried(Path(folder))
    detail, hint = found
    return Check(name="rules", ok=not hint, detail=detail, hint=hint)


def _unreachable(host: str, port: int) -> str:
    """Return why a port takes no connection; empty if it does."""
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error) or "it does not answer"
    return ""
