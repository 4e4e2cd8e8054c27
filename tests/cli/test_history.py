"""``history``: the last batches of each table, for people and for programs, without Spark."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.inside import strandline, succeeded
from tests.support.days import Came, Held, lived

pytestmark = pytest.mark.slow

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
LATE = Held(reasons=("late",), payload=b"{}")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a lake with sixteen quiet batches and a loud one."""
    quiet = [Came(at=NINE + n * timedelta(minutes=5), good=10) for n in range(16)]
    loud = Came(at=NINE + timedelta(hours=2), good=40, held=[LATE] * 8)
    return lived(tmp_path_factory.mktemp("past") / "lake", [*quiet, loud], gold=False).root.local


def test_the_last_batches_are_shown_with_what_was_not_as_usual(lake: Path) -> None:
    """It answers the question on call: since when, and how much."""
    answer = succeeded("history", "silver.device_telemetry", "--last", "3", "--lake", lake)

    rows = [line for line in answer.out.splitlines() if line.strip().startswith("1")]
    assert len(rows) == 3
    assert "48 rows read, usually 9 to 11" in rows[-1]
    assert "16.7% quarantined, usually 0.0% to 0.5%" in rows[-1]
    assert "usually" not in rows[0]


def test_programs_get_every_figure(lake: Path) -> None:
    """The same batches, with everything that history holds of them."""
    found = succeeded("history", "silver.device_telemetry", "--lake", lake, "--json").json

    assert isinstance(found, list)
    assert len(found) == 10
    assert found[-1]["values"]["quarantined:late"] == 8
    assert [mark["what"] for mark in found[-1]["drift"]] == ["volume", "share"]
    assert found[0]["drift"] == []


def test_a_lake_without_tables_is_refused_with_a_hint(tmp_path: Path) -> None:
    """There is no commit to show."""
    answer = strandline("history", "--lake", tmp_path)

    assert answer.code == 2
    assert "hint:" in answer.err
