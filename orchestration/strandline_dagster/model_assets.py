"""Models as assets: a run trains a version, and its check says whether the version may be promoted.

Nothing is promoted by a run. From when on a version scores is a person's decision (`strandline models promote`), because
it changes what a table says.
"""

from collections.abc import Iterator

from dagster import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    Config,
    MaterializeResult,
    multi_asset,
)
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.model import Model
from strandline.engine.runtime import clock
from strandline.operate.ranges import both
from strandline_dagster.alarms import again_or_failed
from strandline_dagster.keys import MODELS, key, model_key
from strandline_dagster.resources import LakeResource, SparkResource

CHECK = "may_be_promoted"


class Training(Config):
    """The range of event time, as `strandline models train` takes it; all rows when absent."""

    since: str = ""
    until: str = ""


def model_assets() -> list[AssetsDefinition]:
    """Make the assets of all models."""
    return [_asset(model) for model in catalog.models()]


def _asset(model: Model) -> AssetsDefinition:
    name = model_key(model.name)

    @multi_asset(
        name=f"train_{model.name}",
        specs=[
            AssetSpec(
                name,
                deps=[key(model.of)],
                group_name=MODELS,
                kinds={"spark", "model"},
                owners=[f"team:{model.owner}"] if model.owner else [],
                description=model.about,
            )
        ],
        check_specs=[
            AssetCheckSpec(
                CHECK,
                asset=name,
                description="the metrics on the time that was held out fulfil the model's check",
                metadata={"severity": "warning"},
            )
        ],
    )
    def train_model(
        context: AssetExecutionContext, config: Training, lake: LakeResource, spark: SparkResource
    ) -> Iterator[MaterializeResult[object] | AssetCheckResult]:
        # Not imported above: MLlib takes longer than all other definitions.
        from strandline.engine.learning.train_model import everything, train  # noqa: PLC0415  # as above

        where = lake.lake()
        try:
            chosen = both(config.since or None, config.until or None, "leave both out")
            span = chosen or everything(spark.spark_session, model, where)
            words = train(spark.spark_session, model, where, span, clock.now())
        except LakeError as error:
            raise again_or_failed(error, context.retry_number) from error
        made = words["certificate"]
        facts = {"version": words["version"], **made["metrics"]}
        complaints = model.against(made)
        yield MaterializeResult(
            asset_key=name,
            metadata={**facts, "since": made["since"], "until": made["until"]},
        )
        yield AssetCheckResult(
            asset_key=name,
            check_name=CHECK,
            passed=not complaints,
            severity=AssetCheckSeverity.WARN,
            description="; ".join(complaints),
        )

    return train_model
