"""By which assets of a project's own read our tables: as Polars, DuckDB, Arrow or Spark, all steps of a run at one version.

A table is written meanwhile, so two steps of a run that each took the newest version would see two. Each reads the version that
the run itself has made, where one of its steps made the table, and else the newest one when the run began. Which that was is among
the metadata of what the step makes.
"""

import importlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from dagster import (
    AssetExecutionContext,
    AssetKey,
    ConfigurableIOManager,
    InputContext,
    OpExecutionContext,
    OutputContext,
)

from strandline.core.errors import DefinitionError
from strandline_dagster.placed import asset_key, use

if TYPE_CHECKING:
    from strandline.engine.ask.lake_reader import Readings

VERSION = "version"
"""Of a table, among the metadata of its materialisations (orchestration/strandline_dagster/assets.py)."""
LOOKED_BACK = 50
"""Materialisations of a table among which that of a run is looked for."""
FORMS = {
    "polars": "polars",
    "duckdb": "duckdb",
    "_duckdb": "duckdb",
    "pyarrow": "arrow",
    "pyspark": "spark",
}
"""Which of the readings of a table is of a type, by the package of the type."""
LAZY = "LazyFrame"

Form = Literal["polars", "duckdb", "arrow", "spark"]
Context = AssetExecutionContext | OpExecutionContext | InputContext


class TableIOManager(ConfigurableIOManager):
    """Loads a table of a lake for an asset that depends on it; as what, its argument's annotation says.

    It stores nothing: a table is written by its own run or stream. Sensitive columns are masked, as in ``strandline query``.

    Args:
        form: What it is loaded as where no annotation says it.
        lake: The folder or address of the lake; that of the project's settings when absent.
        project: The folder with ``strandline.toml``; found from the working folder upwards when absent.
        profile: The profile of it.
        unmasked: Why sensitive columns are shown in the clear; each read is written down with it.
    """

    form: Form = "polars"
    lake: str | None = None
    project: str | None = None
    profile: str | None = None
    unmasked: str | None = None

    def load_input(self, context: InputContext) -> Any:  # noqa: ANN401  # as it is annotated
        """Return the rows of the table that an asset depends on."""
        wanted = context.dagster_type.typing_type
        found = self._loaded(table_of(context.asset_key), context, self._form_of(wanted))
        return found.lazy() if getattr(wanted, "__name__", "") == LAZY else found

    def handle_output(self, context: OutputContext, obj: object) -> None:  # noqa: ARG002  # as Dagster calls it
        """Refuse to store anything.

        Raises:
            DefinitionError: Always.
        """
        raise DefinitionError(
            f"{context.get_identifier()} would be stored as a table of the lake",
            hint="give the asset an io_manager_key of yours, and its input this one as input_manager_key.",
        )

    def polars(self, table: str, context: Context) -> Any:  # noqa: ANN401  # a frame of Polars, of an extra
        """Return the rows of a table as a frame of Polars, at the version that the run sees."""
        return self._loaded(table, context, "polars")

    def duckdb(self, table: str, context: Context) -> Any:  # noqa: ANN401  # DuckDB's relation
        """Return them as a relation of DuckDB, to go on asking."""
        return self._loaded(table, context, "duckdb")

    def arrow(self, table: str, context: Context) -> Any:  # noqa: ANN401  # Arrow's table
        """Return them as a table of Arrow."""
        return self._loaded(table, context, "arrow")

    def spark(self, table: str, context: Context) -> Any:  # noqa: ANN401  # Spark's frame
        """Return them as a frame of Spark, which is started where this process has none."""
        return self._loaded(table, context, "spark")

    def version(self, table: str, context: Context) -> int:
        """Return the version of a table that the run sees."""
        return _seen(self._readings(table), _key_of(table, context), context)

    def _loaded(self, table: str, context: Context, form: str) -> Any:  # noqa: ANN401  # as above
        readings = self._readings(table)
        version = _seen(readings, _key_of(table, context), context)
        _note(context, {f"{table} version": version})
        as_form: Callable[[int], Any] = getattr(readings, form)
        return as_form(version)

    def _readings(self, table: str) -> "Readings":
        use(project=self.project, profile=self.profile, lake=self.lake)
        # By name: the definitions of a code location load without the readers of tables.
        reader = importlib.import_module("strandline.engine.ask.lake_reader")
        readings: Readings = reader.lake(unmasked=self.unmasked)[table]
        return readings

    def _form_of(self, wanted: object) -> str:
        package = str(getattr(wanted, "__module__", "")).partition(".")[0]
        return FORMS.get(package, self.form)


def table_of(key: AssetKey) -> str:
    """Return the name of the table of an asset, whatever its key begins with.

    >>> table_of(AssetKey(["lake", "silver", "orders"]))
    'silver.orders'
    """
    if len(key.path) < 2:  # noqa: PLR2004  # a layer and a name
        raise DefinitionError(
            f"the asset {key.to_user_string()} is no table of a lake",
            hint="depend on the key of one, such as AssetKey(['silver', 'orders']).",
        )
    return ".".join(key.path[-2:])


def _seen(readings: "Readings", key: AssetKey, context: Context) -> int:
    """Return the version that this run sees: the one that the run itself has made, else the newest at its start.

    The same for each step, in whatever process, and nothing has to be remembered for it.
    """
    run = context.step_context.run_id if isinstance(context, InputContext) else context.run.run_id
    made = context.instance.fetch_materializations(key, limit=LOOKED_BACK).records
    for each in made:
        found = each.asset_materialization
        if each.run_id == run and found and VERSION in found.metadata:
            return int(str(found.metadata[VERSION].value))
    record = context.instance.get_run_record_by_id(run)
    if record is None:
        return readings.version
    begun = datetime.fromtimestamp(record.start_time or record.create_timestamp.timestamp(), UTC)
    at = importlib.import_module("strandline.engine.lake.open_table")
    try:
        version: int = at.version_at(readings.source.place, readings.name, begun)
    except DefinitionError:  # it was made after that
        return readings.version
    return version


def _key_of(table: str, context: Context) -> AssetKey:
    """Return the key by which the asset of a context knows a table."""
    parts = table.split(".", 1)
    if isinstance(context, InputContext):
        return context.asset_key
    known = context.assets_def.dependency_keys if context.has_assets_def else ()
    return next((each for each in known if list(each.path[-2:]) == parts), asset_key(*parts))


def _note(context: Context, facts: dict[str, int]) -> None:
    """Put facts among the metadata of what the step makes.

    Not beside the input that was loaded: Dagster (1.13.27) refuses that for a table with days in a run without.
    """
    if isinstance(context, InputContext):
        step = context.step_context
        for key in step.assets_def.keys if step.assets_def else ():
            step.add_asset_metadata(facts, asset_key=key)
    elif isinstance(context, AssetExecutionContext):
        for key in context.assets_def.keys:
            context.add_asset_metadata(facts, asset_key=key)
