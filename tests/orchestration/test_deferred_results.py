"""No answer of a check is lost, and each is later than the table that it is about."""

from pathlib import Path

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetKey,
    AssetMaterialization,
    DagsterInstance,
    GraphDefinition,
    OpExecutionContext,
    op,
)

from strandline_dagster.resources import Answers

pytestmark = pytest.mark.whole

TABLE = AssetKey(["silver", "things"])
NAMES = ("first", "second")


@op
def make_a_table(context: OpExecutionContext, answers: Answers) -> None:
    """Report that a table was made, and answer two checks of it."""
    context.log_event(AssetMaterialization(TABLE))
    for name in NAMES:
        answers.keep(AssetCheckEvaluation(asset_key=TABLE, check_name=name, passed=True))
    if context.has_tag("fails"):
        message = "asked to"
        raise ValueError(message)


JOB = GraphDefinition(name="two", node_defs=[make_a_table]).to_job(
    resource_defs={"answers": Answers()}
)


@pytest.mark.parametrize("tags", [{}, {"fails": "yes"}], ids=["done", "failed"])
def test_every_answer_is_later_than_its_table(tmp_path: Path, tags: dict[str, str]) -> None:
    """In SQLite, which keeps whole seconds, and also when the run fails."""
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        done = JOB.execute_in_process(instance=instance, raise_on_error=False, tags=tags)

        assert done.success is not bool(tags)
        made = instance.get_latest_materialization_event(TABLE)
        assert made is not None
        keys = [AssetCheckKey(TABLE, name) for name in NAMES]
        found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
        assert set(found) == set(keys)
        assert all(each.create_timestamp >= made.timestamp for each in found.values())
