"""Which extras of the wheel a project uses."""

import re
import tomllib
from collections.abc import Iterator

from strandline import catalog

from strandline.core.errors import LakeError
from strandline.engine.runtime.settings import lineage_namespace, settings
from strandline.project import project
from strandline_infra import extras

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
            yield from (each for each in names if each in extras.EXTRAS)


def _of_settings(lake: str | None) -> Iterator[tuple[str, str]]:
    if lineage_namespace() is not None:
        yield "lineage", "OpenLineage is configured"
    try:
        found = settings(lake=lake)
    except LakeError:
        return
    if found.postgres is not None:
        yield "postgres", "STRANDLINE_POSTGRES is set"
    if found.schema_registry is not None:
        yield "registry", "STRANDLINE_SCHEMA_REGISTRY is set"
