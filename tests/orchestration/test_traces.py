"""A run of Dagster is a trace, down to the commits of Delta: as the protocol's own messages decode it, and as its collector prints it."""

import json
import time
from pathlib import Path

import pytest

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import entry_at
from tests.orchestration.test_catch_up import caught_up
from tests.support.collector_server import collecting
from tests.support.events import received
from tests.support.instance import ephemeral
from tests.support.otlp import receiving
from tests.support.poison import GOOD


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_from_a_run_of_dagster_to_the_commits_of_delta(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id is that of the trace; each commit names a version whose ledger entry has the same batch and rows."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    received(lake, GOOD)
    with receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.address)
        done = caught_up(ephemeral())
        receiver.until(lambda: any(each.name.startswith("dagster ") for each in receiver.spans))

    assert done.success
    spans = {each.id: each for each in receiver.spans}
    assert {each.trace for each in spans.values()} == {done.run_id.replace("-", "")}
    commits = [each for each in spans.values() if each.name.startswith("commit ")]
    assert {each.facts["strandline.table"] for each in commits} == {silver.TABLE.id, gold.TABLE.id}
    for each in commits:
        batch = spans[each.parent]
        table = spans[batch.parent]
        root = spans[table.parent]
        assert root.parent == ""
        assert root.facts["dagster.run"] == done.run_id
        declared = next(
            t for t in (silver.TABLE, gold.TABLE) if t.id == each.facts["strandline.table"]
        )
        entry = entry_at(lake.table(declared), each.facts["strandline.version"])
        assert entry is not None
        assert batch.facts["strandline.batch"] == entry.batch
        assert batch.facts["strandline.rows.read"] == entry.read
        assert root.start <= table.start
        assert batch.start < each.start <= each.end <= table.end <= root.end


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.prove(alone="the first builds OpenTelemetry's collector, minutes")
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("spark")
def test_the_collector_of_opentelemetry_has_the_trace_down_to_the_commits(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of its makers receives, decodes and prints; each commit that it names is a file of Delta's log with that entry."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(lake.root))
    received(lake, GOOD)
    with collecting(tmp_path) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        done = caught_up(ephemeral())
        deadline = time.monotonic() + 60
        while not any(each.name.startswith("dagster ") for each in collector.spans()):
            assert time.monotonic() < deadline, collector.text
            time.sleep(0.1)

    assert done.success
    spans = {each.id: each for each in collector.spans()}
    assert {each.trace for each in spans.values()} == {done.run_id.replace("-", "")}
    commits = [each for each in spans.values() if each.name.startswith("commit ")]
    assert len(commits) == 2
    for each in commits:
        batch = spans[each.parent]
        table = spans[batch.parent]
        root = spans[table.parent]
        way = [one.name.split()[0] for one in (root, table, batch, each)]
        assert way == ["dagster", "available-now", "batch", "commit"]
        assert (root.parent, root.facts["dagster.run"]) == ("", done.run_id)
        (declared,) = [
            t for t in (silver.TABLE, gold.TABLE) if t.id == each.facts["strandline.table"]
        ]
        version = int(each.facts["strandline.version"])
        log = commit_file(lake.table(declared), version).text() or ""
        info = next(
            found["commitInfo"]
            for line in log.splitlines()
            if "commitInfo" in (found := json.loads(line))
        )
        assert f'"batch":{batch.facts["strandline.batch"]}' in info["userMetadata"].replace(" ", "")
        shown = " > ".join(one.name for one in (root, table, batch, each))
        print(f"\n{root.trace}: {shown}, version {version}")  # noqa: T201  # for who runs it with -s
