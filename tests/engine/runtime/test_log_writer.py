"""A record is one line for programs and a readable text for people, and an error keeps its facts."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from strandline.core.errors import DataError
from strandline.engine.runtime.log_files import (
    MOST_OF_A_TRACEBACK,
    as_text,
    concerns,
    last_error,
    logger,
    record,
)

AT = datetime(2026, 11, 20, 12, 0, 1, 234_000, tzinfo=UTC)


@pytest.fixture
def written() -> list[str]:
    """Return a list for lines."""
    return []


@pytest.mark.whole
def test_a_record_begins_with_its_time_its_level_its_event_and_its_table(
    written: list[str],
) -> None:
    log = logger(written.append, lambda: AT, as_json=True)

    log.info("progress", rows=12_000, table="silver.a", batch=7, watermark=None)

    (line,) = written
    assert line.startswith(
        '{"time": "2026-11-20T12:00:01.234Z", "level": "info", "event": "progress", '
        '"table": "silver.a", "batch": 7'
    )
    assert "\n" not in line


def test_people_read_the_same_record_as_a_sentence_with_its_figures(written: list[str]) -> None:
    """Without JSON the text is printed at once; with JSON, when the log is read."""
    figures = {"table": "silver.a", "rows": 12_000, "rate": 0.25, "watermark": None, "why": "a b"}
    logger(written.append, lambda: AT, as_json=True).info("progress", **figures)
    logger(written.append, lambda: AT, as_json=False).info("progress", **figures)

    found = record(written[0])
    assert found
    assert written[1] == str(as_text(found))
    assert written[1] == (
        '2026-11-20 12:00:01Z info     silver.a: progress rows=12,000 rate=0.2 why="a b"'
    )


def test_a_foreseen_error_has_its_sentence_hint_and_facts_and_no_traceback(
    written: list[str],
) -> None:
    log = logger(written.append, lambda: AT, as_json=True)

    log.critical("ended", exc_info=DataError("it was made anew", hint="decide.", topic="t"))

    found = json.loads(written[0])
    assert (found["message"], found["hint"]) == ("it was made anew", "decide.")
    assert (found["error"], found["kind"], found["fields"]) == ("DataError", "data", {"topic": "t"})
    assert "exception" not in found
    assert str(as_text(found)).splitlines() == [
        "2026-11-20 12:00:01Z critical ended: it was made anew topic=t kind=data",
        "    hint: decide.",
    ]


def test_an_unforeseen_error_has_a_traceback_of_a_bounded_length(written: list[str]) -> None:
    """Spark adds whole plans to its errors; the beginning and the end say what happened."""
    log = logger(written.append, lambda: AT, as_json=True)
    with pytest.raises(ValueError, match="begin") as raised:
        raise ValueError("begin\n" + "x" * 10 * MOST_OF_A_TRACEBACK + "\nend")

    log.error("failed", exc_info=raised.value)

    found = json.loads(written[0])
    assert found["message"] == "ValueError: begin"
    assert found["exception"].startswith("Traceback")
    assert found["exception"].endswith("\nend")
    assert len(found["exception"]) < 3 * MOST_OF_A_TRACEBACK
    text = str(as_text(found)).splitlines()
    assert text[1].startswith("    Traceback")


def test_any_value_can_be_logged(written: list[str]) -> None:
    """A log must not fail because of what it is given."""
    log = logger(written.append, lambda: AT, as_json=True)

    log.info("odd", at=AT, path=Path("/x"), bad="\udcff", keys={1: 2, (3,): 4}, table=None)

    found = record(written[0])
    assert found
    assert str(as_text(found))


def test_a_record_concerns_its_table_its_tables_or_all() -> None:
    about = {"time": "", "level": "info", "event": "x"}

    assert concerns({**about, "table": "a"}, "a")
    assert not concerns({**about, "table": "a"}, "b")
    assert concerns({**about, "tables": ["a", "b"]}, "b")
    assert not concerns({**about, "tables": ["a", "b"]}, "c")
    assert concerns(about, "a")


@pytest.mark.parametrize(
    "line",
    [
        "error: no Kafka broker answers",
        '{"time": "2026-11-20T12:00:01Z", "level": "info", "eve',
        '{"at": "noon", "who": "me"}',
        '{"time": "noon", "level": "loud", "event": "x"}',
        '{"time": "noon", "level": "info", "event": "x", "tables": 3}',
        "{}",
        "",
    ],
)
def test_another_line_is_no_record(line: str) -> None:
    assert record(line) is None


def test_the_last_error_of_records_is_a_sentence_with_its_hint(
    tmp_path: Path, written: list[str]
) -> None:
    """The watchdog's page shows it; what follows it in another program's words belongs to it."""
    log = logger(written.append, lambda: AT, as_json=True)
    log.error("failed", table="a", message="an earlier one", hint="no.")
    log.critical("ended", exc_info=DataError("the topic was made anew", hint="decide."))
    written.append("Killed")
    log.info("started", tables=["a", "b"])
    file = tmp_path / "stream.log"
    file.write_text("\n".join(written) + "\n")

    assert last_error(file) == "error: the topic was made anew hint: decide. Killed"

    file.write_text(written[-1] + "\n")
    assert last_error(file) == "a and 1 more: started"
