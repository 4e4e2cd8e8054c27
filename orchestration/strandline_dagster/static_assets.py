"""Static tables in Dagster: external assets above which the tables are that join them.

No run makes one. A table that joins it takes its content in, in a run, in a stream or by a command; so all versions are reported
from the lake (orchestration/strandline_dagster/written.py).
"""

from collections.abc import Iterator
from typing import Any

from dagster import AssetMaterialization, AssetSpec, TableColumn, TableSchema
from strandline import catalog

from strandline.core.static import Static
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, latest_version
from strandline.engine.lake.read import static_versions
from strandline.engine.lake.read.open_table import kinds
from strandline_dagster.keys import source_key


def static_assets() -> list[AssetSpec]:
    """Make the assets of all static tables."""
    return [spec_of(static) for static in catalog.statics()]


def spec_of(static: Static) -> AssetSpec:
    """Return what Dagster shows of a static table, derived from its declaration."""
    return AssetSpec(
        source_key(static.id),
        group_name=static.layer,
        kinds={"delta"},
        description=f"From {static_versions.source_said(static)}, joined to rows as of their event.",
        metadata={"dagster/table_name": static.id, "dagster/storage_kind": "delta"},
    )


def versions_since(
    static: Static, lake: Lake, seen: dict[str, Any]
) -> Iterator[AssetMaterialization]:
    """Yield the versions that came since the last look; at the first look the newest."""
    path = lake.table(static)
    newest = latest_version(path)
    after, seen["version"] = seen.get("version", newest - 1), newest
    schema = TableSchema([TableColumn(name, kind) for name, kind in kinds(path).items()])
    for version, entry in entries(path) if newest > after else ():
        if version > after:
            yield AssetMaterialization(
                source_key(static.id),
                metadata={
                    "version": version,
                    "dagster/row_count": static_versions.rows_of(static, lake, version),
                    "holds": static_versions.holds_said(entry.holds_from),
                    "changed rows": entry.written,
                    "source": entry.source,
                    "dagster/column_schema": schema,
                },
            )
