"""The catalogs that the settings name, and their sync behind the maintenance of a lake."""

from collections.abc import Callable, Iterator
from datetime import datetime

from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError
from strandline.engine.lake.lake import Lake
from strandline.engine.publish.catalogs import Catalog, sync
from strandline.engine.runtime.settings import Settings
from strandline_infra.installation import hint


def catalogs(found: Settings) -> list[Catalog]:
    """Return the catalogs that the settings name.

    Raises:
        DefinitionError: The packages of one are not installed, or its options are wrong.
    """
    made: list[Catalog] = []
    if found.iceberg:
        try:
            # Not imported above: it takes half a second, and most lakes are in no such catalog.
            from strandline.engine.publish.iceberg import IcebergCatalog  # noqa: PLC0415  # as above
        except ModuleNotFoundError as error:
            raise DefinitionError(
                f"the catalog {found.iceberg} needs packages that are not installed: {error.name}",
                hint=hint("iceberg"),
            ) from error
        made.append(IcebergCatalog(found.iceberg, found.iceberg_options))
    if found.ducklake:
        from strandline.engine.publish.ducklake import DuckLakeCatalog  # noqa: PLC0415  # as above

        made.append(DuckLakeCatalog(found.ducklake))
    if found.unity:
        from strandline.engine.publish.unity import UnityCatalog  # noqa: PLC0415  # as above

        made.append(UnityCatalog(found.unity, found.unity_options))
    return made


def bring_up_to_date(
    found: Settings,
    lake: Lake,
    clock: Callable[[], datetime],
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[str]:
    """Sync all catalogs with all tables, and yield a sentence for what changed and for what is in the way; nothing is raised.

    Args:
        found: The settings.
        lake: The lake.
        clock: Returns the time.
        is_over: Whether the time is over; asked between two tables.
    """
    try:
        known = catalogs(found)
    except LakeError as error:
        yield error.message
        return
    for each in known:
        try:
            for name, entry, is_news in sync(each, catalog.tables(), lake, clock, is_over=is_over):
                if is_news:
                    yield f"{each.name} shows {name} at version {entry.version:,}"
                elif entry.why and not entry.is_kept_back:
                    yield f"{each.name} shows nothing newer of {name}: {entry.why}"
        except LakeError as error:
            yield error.message
