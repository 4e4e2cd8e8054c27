"""Every alarm has a page and every page an alarm; each command on a page is typed, in the state that raises the alarm."""

import json
import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.bronze import device_telemetry
from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import logger
from strandline.engine.service.stream_health import Ill, Order, write_desired
from strandline_dagster.resources import UNFORESEEN, Alarm, page
from tests.architecture.tree import ROOT
from tests.cli import inside, typed
from tests.docs.pages import BLOCK, RUNBOOK, RUNBOOKS
from tests.engine.records import NOON, expire, put
from tests.engine.written import small_lake
from tests.faults.test_lost_records import keep

SECTIONS = ["What it means", "Confirm", "Remedy", "It is over when"]
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)

SAID = re.compile(r"^\| (?P<said>\*.+) \| .+\]\(.+\|$", re.MULTILINE)
"""A row of the first page's table: what `strandline status` says, and where to go."""

QUOTED = re.compile(r"\*([^*]+)\*")

AT_ONCE = {"gate", "ledger", "logs", "rules", "status", "tables"}
"""Verbs that answer about a small lake, without a broker and without Spark."""

GONE = 2**22 + 1
"""No process of Linux has such a number."""


def commands(alarm: Alarm) -> dict[str, list[list[str]]]:
    """Return the commands of a page's fenced blocks by section."""
    heads = HEADING.split(page(alarm))[1:]
    return {
        head: [
            shlex.split(line)[1:]
            for block in BLOCK.finditer(text)
            for line in block["text"].splitlines()
        ]
        for head, text in zip(heads[::2], heads[1::2], strict=True)
    }


def test_every_alarm_has_a_page_and_every_page_an_alarm() -> None:
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}

    assert pages == {*Alarm}


def test_everything_that_alerts_a_person_is_an_alarm() -> None:
    """What the watchdogs name, and each kind of error with which a run may fail."""
    kinds = {each.kind for each in (LakeError, DataError, DefinitionError, TransientError)}

    assert {*Ill} <= {*Alarm}
    assert {f"alerts_{ill}" for ill in {*Ill} - {Ill.FAILING, Ill.FENCED}} <= {*Alarm}
    assert {f"run_{kind}" for kind in kinds | {UNFORESEEN}} <= {*Alarm}


@pytest.mark.parametrize("alarm", list(Alarm))
def test_a_page_says_what_it_means_how_to_confirm_the_remedy_and_when_it_is_over(
    alarm: Alarm,
) -> None:
    found = commands(alarm)

    assert page(alarm).startswith(f"# {alarm}\n")
    assert list(found) == SECTIONS
    for section in SECTIONS[1:]:
        assert found[section], f"{section} has nothing to type"
    assert f"[{alarm}]({alarm}.md)" in RUNBOOK.read_text()


def test_what_the_first_page_looks_for_are_sentences_of_the_program() -> None:
    """A reader finds the page by what `status` printed, to the letter."""
    first = RUNBOOK.read_text().partition("## Alarms")[0]
    said = {each for row in SAID.finditer(first) for each in QUOTED.findall(row["said"])}
    assert len(said) > len(SECTIONS)
    printed = "\n".join(path.read_text() for path in (ROOT / "jobs").rglob("*.py"))

    # Radar's levels are printed with the colon that follows them.
    assert {each for each in said if each.rstrip(":") not in printed} == set()


def test_what_is_typed_to_confirm_answers_about_a_lake_whose_stream_died(tmp_path: Path) -> None:
    """Those that need no broker and no Spark, each once; the others are typed by the next test."""
    lake = small_lake(tmp_path)
    died(lake)
    every = {tuple(words) for alarm in Alarm for each in commands(alarm).values() for words in each}
    chosen = {words for words in every if words[0] in AT_ONCE}
    assert len(chosen) > len(AT_ONCE)

    answers = {words: inside.strandline(*words, env=_of(lake)) for words in sorted(chosen)}

    # The stream should run and does not: its status says so to programs as well.
    usual = {words: TransientError.exit_code if words[0] == "status" else 0 for words in answers}
    assert {w: a.printed for w, a in answers.items() if a.code != usual[w]} == {}


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.timeout(1800)
@pytest.mark.prove(alone="fifteen minutes")
def test_each_command_of_each_page_is_typed_in_the_state_that_raises_the_alarm(
    tmp_path: Path,
) -> None:
    """One lake, page by page: a broker, some events, and what the page is about; what it remedies is gone at the end."""
    lake = Lake(tmp_path / "lake")
    env = _of(lake)
    typed.succeeded("up", env=env)
    try:
        typed.succeeded("produce", "--events", 300, env=env)
        typed.succeeded("run", env=env, timeout=900)
        for alarm in Alarm:
            STATES.get(alarm, died)(lake)
            for section, each in commands(alarm).items():
                for words in each:
                    answer = typed.strandline(*words, env=env, timeout=900)
                    finds = section == "Confirm"  # and its exit code says what is wrong
                    assert answer.code in ({0, 3, 4} if finds else {0}), (
                        alarm,
                        words,
                        answer.printed,
                    )
                    SEEN.get((alarm, section, words[0]), lambda _: None)(answer.printed)
            typed.succeeded("pause", env=env)
            typed.strandline("alerts", "--pause", env=env)
    finally:
        typed.strandline("pause", env=env)
        typed.strandline("alerts", "--pause", env=env)
        typed.strandline("down", env=env)


def died(lake: Lake) -> None:
    """Leave the order and the last heartbeat of a stream that was killed."""
    at = (clock.now() - timedelta(minutes=20)).isoformat()
    write_desired(lake, Order(runs=True, at=at, by="on-call"))
    beat: dict[str, Any] = {"pid": GONE, "host": "", "alive": False, "at": at, "tables": {}}
    lake.heartbeat.put(json.dumps(beat))
    lines: list[str] = []
    error = TransientError("Spark's JVM is gone", hint="type the same again.")
    logger(lines.append, clock.now, as_json=True).critical("ended", exc_info=error)
    for name in ("stream", "alerts"):
        if not lake.log(name).exists():
            lake.log(name).put("\n".join(lines) + "\n")


def _of(lake: Lake) -> dict[str, str]:
    return {"STRANDLINE_LAKE": str(lake.root)}


def _unread(lake: Lake, minutes_ago: int) -> str:
    """Send a record to each topic of the table, which the topic keeps for an hour; return the address of the broker."""
    status: Any = typed.succeeded("status", "--json", env=_of(lake)).json
    address = str(status["kafka"])
    for topic in device_telemetry.TABLE.topics:
        keep(address, topic, 3_600_000)
        moment = clock.now() - timedelta(minutes=minutes_ago) - NOON
        put(address, topic, [(0, moment // timedelta(milliseconds=1))])
    return address


def _expiring(lake: Lake) -> None:
    died(lake)
    _unread(lake, 55)


def _lost(lake: Lake) -> None:
    died(lake)
    address = _unread(lake, 10)
    for topic in device_telemetry.TABLE.topics:
        expire(address, topic, 0, -1)  # up to its end


STATES: dict[Alarm, Callable[[Lake], None]] = {Alarm.EXPIRING: _expiring, Alarm.LOST: _lost}


def _has(text: str) -> Callable[[str], None]:
    def see(printed: str) -> None:
        assert text in printed

    return see


SEEN = {
    (Alarm.EXPIRING, "Confirm", "radar"): _has("urgent"),
    (Alarm.LOST, "Confirm", "radar"): _has("are gone and were not read"),
    (Alarm.LOST, "Remedy", "accept-loss"): _has("are recorded as lost"),
    (Alarm.LOST, "It is over when", "ledger"): _has("lost to bronze.device_telemetry"),
}
"""What the pages say that a command shows."""
