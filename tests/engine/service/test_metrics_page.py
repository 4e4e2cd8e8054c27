"""A page of metrics is read from memory, and a part of the lake that cannot be read hides no other."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.service.metrics_page import METRICS
from tests.engine.written import small_lake
from tests.support.watched_lake import labels, lease_of_another, look, values, watched_lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.whole
def test_every_metric_has_a_sample_in_a_lake_that_has_everything(tmp_path: Path) -> None:
    """A metric that no lake can have would be a promise.

    What only an object store has is in test_lease_records.py, what only topics with kinds have in tests/engine/flow/test_routes.py.
    """
    lake = watched_lake(tmp_path, NOW)

    with lease_of_another(lake, "silver.device_telemetry"):
        found = labels(look(lake, NOW).text())

    elsewhere = {"strandline_lease_holders_total", "strandline_records_by_route"}
    assert {each.name for each in METRICS} - {*found} == elsewhere
    assert {each.name: {*each.labels} for each in METRICS if each.name in found} == found


def test_names_follow_the_conventions_of_prometheus() -> None:
    """What is a counter says so, a unit is a base unit, and each has a sentence; promtool looks closer where it is there."""
    for each in METRICS:
        assert each.name.startswith("strandline_")
        assert each.means.endswith(".")
        assert not {"ms", "minutes", "kb", "count"} & {*each.name.split("_")}
    assert len({each.name for each in METRICS}) == len(METRICS)


@pytest.mark.whole
def test_a_scrape_reads_nothing_of_the_lake(tmp_path: Path) -> None:
    """However often it is asked: the lake is gone, and the page is as it was."""
    lake = small_lake(tmp_path / "lake")
    page = look(lake, NOW)
    shutil.rmtree(tmp_path / "lake")
    with page.served("127.0.0.1", 0) as port:
        texts = {_read(port) for _ in range(20)}

    assert len(texts) == 1
    assert 'strandline_rows_read_total{table="bronze.device_telemetry"} 5.0' in texts.pop()


def test_a_part_that_fails_is_named_keeps_its_figures_and_hides_no_other(tmp_path: Path) -> None:
    """The reason is reported once, and the part is read again when it can be."""
    lake, failures = watched_lake(tmp_path, NOW), list[str]()
    page = look(lake, NOW, failures)
    before = values(page)
    gate = next(each for each in lake.gates.files() if each.name.endswith(".json"))
    text = gate.text() or ""
    gate.put("{")

    page.look()
    page.look()

    assert [each.partition(":")[0] for each in failures] == ["gates"]
    after = values(page)
    assert after["strandline_look_failed", "gates"] == 1
    assert after["strandline_look_failed", "ledger"] == 0
    shut = ("strandline_gate_shut", "before", "silver.device_telemetry")
    assert before[shut] == after[shut] == 1
    gate.put(json.dumps({**json.loads(text), "opened": "seen"}))
    page.look()
    assert values(page)["strandline_look_failed", "gates"] == 0
    assert values(page)[shut] == 0


@pytest.mark.whole
def test_a_lake_that_is_not_there_yet_has_a_page(tmp_path: Path) -> None:
    """A pod beside the stream may start first; the tables come with the next looks."""
    page = look(Lake(tmp_path / "none"), NOW)
    assert values(page)["strandline_process_up", "stream"] == 0
    assert not any(value for (name, *_), value in values(page).items() if name.endswith("failed"))
    small_lake(tmp_path / "none")

    page.look()

    assert values(page)["strandline_rows_read_total", "bronze.device_telemetry"] == 5


def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    page = look(Lake(tmp_path), NOW)
    with (
        page.served("127.0.0.1", 0) as port,
        pytest.raises(DefinitionError, match=str(port)),
        page.served("127.0.0.1", port),
    ):
        pass


def _read(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text
