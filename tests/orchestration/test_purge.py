"""Dagster's history is purged by a policy, and what its pages show of assets and checks stays."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    AssetRecordsFilter,
    DagsterInstance,
    Nothing,
    Out,
    job,
    op,
)
from sqlalchemy import text

from strandline_dagster import purge
from strandline_dagster.purge import PURGE, left_files, old_runs, shrunk, size
from strandline_dagster.purge import old_events as events_purged
from strandline_infra.programs import instance as configuration
from tests.support.postgres import served

POSTGRES = "postgres"
KEEP = 5
TABLE = AssetKey(["silver", "readings"])
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """Serve an empty database, and return its address."""
    with served() as server:
        server.give_history()
        yield server.url("history", user="dagster")


@pytest.fixture
def instance(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DagsterInstance]:
    """Return an instance that is configured as that of a lake."""
    in_database = getattr(request, "param", None) == POSTGRES
    if in_database:
        monkeypatch.setenv("STRANDLINE_POSTGRES", request.getfixturevalue("database"))
    (tmp_path / "dagster.yaml").write_text(configuration(in_database=in_database))
    with DagsterInstance.from_config(str(tmp_path)) as made:
        yield made
        if in_database:
            made.wipe()


in_both = pytest.mark.parametrize("instance", ["sqlite", POSTGRES], indirect=True)


@op(out=Out(Nothing))
def reports(context) -> None:  # noqa: ANN001  # Dagster reads the signature
    """Report as a step of the job that brings tables up to date."""
    context.log.info("a line")
    context.log_event(AssetMaterialization(TABLE, metadata={"rows": 1}))


@job
def computes() -> None:
    """Report one asset."""
    reports()


@op
def idle() -> None:
    """Do nothing."""


@job
def idles() -> None:
    """Compute nothing that a page shows."""
    idle()


def reported(instance: DagsterInstance, count: int, *names: str) -> None:
    """Report results of checks and commits, as the sensors do."""
    for number in range(count):
        for name in names:
            instance.report_runless_asset_event(
                AssetCheckEvaluation(
                    asset_key=TABLE, check_name=name, passed=number % 2 == 0, metadata={"n": number}
                )
            )
        instance.report_runless_asset_event(AssetObservation(TABLE, metadata={"n": number}))
        instance.report_runless_asset_event(AssetMaterialization(TABLE, metadata={"n": number}))


def history(instance: DagsterInstance, name: str) -> list[object]:
    """Return what the page of a check shows, the newest first."""
    found = instance.event_log_storage.get_asset_check_execution_history(
        AssetCheckKey(TABLE, name), limit=10_000
    )
    return [each.event.asset_check_evaluation.metadata["n"].value for each in found if each.event]


def rows(instance: DagsterInstance, table: str, shard: str | None = None) -> int:
    storage = instance.event_log_storage
    connect = storage.index_connection() if shard is None else storage.run_connection(shard)
    with connect as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar())  # noqa: S608  # our own names


@pytest.mark.whole
@in_both
def test_the_newest_results_and_events_stay_and_all_others_go(instance: DagsterInstance) -> None:
    """Also those in SQLite's second copy."""
    for day in ("2026-11-01", "2026-11-02"):
        instance.report_runless_asset_event(AssetMaterialization(TABLE, partition=day))
    reported(instance, 3 * KEEP, "unread", "keeps_up")
    newest = history(instance, "unread")[:KEEP]
    before = rows(instance, "event_logs"), rows(instance, "asset_check_executions")

    deleted = sum(events_purged(instance, KEEP))

    assert history(instance, "unread") == newest
    assert len(history(instance, "keeps_up")) == KEEP
    found = instance.fetch_materializations(AssetRecordsFilter(TABLE), limit=1_000).records
    by_hand = [
        each.asset_materialization.metadata["n"].value for each in found if not each.partition_key
    ]
    assert by_hand == [*range(3 * KEEP - 1, 2 * KEEP - 1, -1)]
    assert instance.get_materialized_partitions(TABLE) == {"2026-11-01", "2026-11-02"}
    record = instance.get_latest_materialization_event(TABLE)
    assert record
    assert record.asset_materialization
    assert record.asset_materialization.metadata["n"].value == 3 * KEEP - 1
    assert before == (2 + 4 * 3 * KEEP, 2 * 3 * KEEP)
    assert rows(instance, "event_logs") == 2 + 4 * KEEP
    assert rows(instance, "asset_check_executions") == 2 * KEEP
    if instance.event_log_storage.is_run_sharded:
        assert rows(instance, "event_logs", "") == KEEP
    assert deleted > 10 * KEEP
    assert list(events_purged(instance, KEEP)) == []


@pytest.mark.whole
def test_a_purge_that_ends_anywhere_is_gone_on_with(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "EVENTS_AT_ONCE", 2)
    reported(instance, 2 * KEEP, "unread")

    steps = [next(events_purged(instance, KEEP)) for _ in range(3)]
    assert steps == [2, 2, 1]
    assert len(history(instance, "unread")) == KEEP
    sum(events_purged(instance, KEEP))

    assert rows(instance, "event_logs") == 3 * KEEP


@pytest.mark.whole
@in_both
def test_old_runs_go_with_their_files_but_for_the_newest_of_an_asset(
    instance: DagsterInstance,
) -> None:
    older, newest = (computes.execute_in_process(instance=instance).run_id for _ in range(2))
    others = [idles.execute_in_process(instance=instance).run_id for _ in range(3)]
    shards = Path(instance.root_directory) / "history" / "runs"
    step = Path(instance.storage_directory()) / older / "compute_logs"
    step.mkdir(parents=True, exist_ok=True)
    (step / "x.err").write_text("text")
    is_sharded = instance.event_log_storage.is_run_sharded
    assert (shards / f"{older}.db").exists() == is_sharded

    assert list(old_runs(instance, datetime(2000, 1, 1, tzinfo=UTC), 100)) == []
    assert list(old_runs(instance, datetime(2000, 1, 1, tzinfo=UTC), 3)) == [older]
    assert list(shards.glob(f"{older}*")) == []
    assert not step.parent.exists()

    assert list(old_runs(instance, LATER, 100)) == others
    assert [each.run_id for each in instance.get_runs()] == [newest]
    assert instance.all_logs(newest)
    assert list(left_files(instance)) == []


@pytest.mark.whole
def test_files_of_a_run_that_is_gone_go_with_the_next_pass(instance: DagsterInstance) -> None:
    """A kill between the run and its files leaves them."""
    run, stays = (idles.execute_in_process(instance=instance).run_id for _ in range(2))
    instance.delete_run(run)
    assert Path(instance.event_log_storage.path_for_shard(run)).exists()

    assert list(left_files(instance)) == [run]

    assert not Path(instance.event_log_storage.path_for_shard(run)).exists()
    assert Path(instance.event_log_storage.path_for_shard(stays)).exists()


def test_the_job_purges_and_the_files_become_smaller(instance: DagsterInstance) -> None:
    for number in range(4 * KEEP):
        large = {"n": number, "text": "x" * 100_000}
        instance.report_runless_asset_event(
            AssetCheckEvaluation(asset_key=TABLE, check_name="unread", passed=True, metadata=large)
        )
    was = size(instance)
    config = {"ops": {"purge_history": {"config": {"results": KEEP}}}}

    done = PURGE.execute_in_process(instance=instance, run_config=config)

    assert done.success
    assert len(history(instance, "unread")) == KEEP
    assert size(instance) < was / 2
    assert list(shrunk(instance)) == []
