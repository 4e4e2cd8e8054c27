"""A run of Dagster is a trace, down to the commits of Delta; the receiver decodes OpenTelemetry's protocol by its own messages."""

import pytest

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entry_at
from tests.orchestration.test_catch_up import caught_up
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
