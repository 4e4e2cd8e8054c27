"""Forty-seven questions over the demo, answered by a client that knows what the tools say of themselves; ninety-two attempts, of which none succeeds."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import jsonschema
import polars as pl
import pytest
from deltalake import DeltaTable
from strandline import Counts

from fleet.play import events
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.cli.agent_attempts import ATTEMPTS, MASK, READ
from tests.cli.agent_questions import QUESTIONS, same
from tests.cli.test_mcp import ABSENT, files, learnt
from tests.cli.typed import succeeded
from tests.support.agent import Agent, Heard, calls, over_stdio

pytestmark = pytest.mark.whole

EVENTS = 6_000
SECONDS = "3s"


@pytest.fixture(name="demo", scope="module")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return the lake of `strandline demo`, which has accounted for each event."""
    root = tmp_path_factory.mktemp("demo")
    (root / "outside.csv").write_text("word\nplover\n")
    succeeded("demo", "--events", EVENTS, "--lake", root / "lake", timeout=1_000)
    return Lake(Place.of(root / "lake"))


def rows_of(lake: Lake) -> Any:  # noqa: ANN401  # a function of a folder
    """Return what reads the live files of a folder by Polars, without a line of ours."""

    @cache
    def rows(folder: str) -> pl.DataFrame:
        files = DeltaTable(str(lake.root.local / folder)).file_uris()
        frames = [pl.read_parquet(file, hive_partitioning=False) for file in files]
        return pl.concat(frames, how="diagonal_relaxed")

    return rows


def sent_to(lake: Lake) -> Mapping[str, Counts]:
    """Return what the play expects of each table: it is made again, and nothing of the lake is asked but the hour."""
    newest: datetime = rows_of(lake)("bronze/device_telemetry")["_arrived_at"].max()
    until = newest.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    playing = events(EVENTS, until, at_once=1_000)
    for _ in playing:
        pass
    return playing.expected()


def test_the_questions_have_their_true_answers(demo: Lake) -> None:
    """Each by a tool that is listed, with arguments that its schema admits; each answer may be believed and says of which version it is."""
    frame, sent = rows_of(demo), sent_to(demo)

    async def work(agent: Agent) -> list[Heard]:
        listed = {each.name: each for each in (await agent.client.list_tools()).tools}
        heard = []
        for question in QUESTIONS:
            given = dict(question.arguments(frame))
            jsonschema.validate(given, listed[question.tool].input_schema)
            heard.append(await agent.call(question.tool, **given))
        return heard

    before = files(demo)
    heard = over_stdio(work, "--lake", demo.root)

    wrong = [
        (question.asks, each.text[:500])
        for question, each in zip(QUESTIONS, heard, strict=True)
        if each.is_refused or same(question.reads(each.answer)) != same(question.truth(frame, sent))
    ]
    assert not wrong
    unbelieved = [
        (question.asks, each.found["because"])
        for question, each in zip(QUESTIONS, heard, strict=True)
        if each.found["believed"] is not question.believed
    ]
    assert not unbelieved
    assert [
        question.asks
        for question, each in zip(QUESTIONS, heard, strict=True)
        if bool(each.found["as_of"]) is not question.has_versions
    ] == []
    assert files(demo) == before
    assert len(calls(demo)) >= len(QUESTIONS)


def test_the_attempts_give_no_masked_value_no_write_no_file_and_no_more_than_the_limits(
    demo: Lake,
) -> None:
    """Each is refused or answered with masks, as it says itself; each is a line of the log, and no file of the lake is another one."""
    secret = str(rows_of(demo)("silver/user_actions")["user_id"].mode()[0])
    outside = str(demo.root.local.parent / "outside.csv")

    async def work(agent: Agent) -> list[tuple[Heard, Heard]]:
        return [
            (
                await _made(agent, attempt.tool, attempt.arguments(secret, outside)),
                await _made(agent, attempt.tool, attempt.arguments(ABSENT, outside))
                if attempt.asks_for_secret
                else Heard(False, "", {}),
            )
            for attempt in ATTEMPTS
        ]

    before, lines = files(demo), len(calls(demo))
    heard = over_stdio(work, "--lake", demo.root, "--timeout", SECONDS)

    succeeded_ones = []
    for attempt, (real, absent) in zip(ATTEMPTS, heard, strict=True):
        alike = learnt(real, secret) == learnt(absent, ABSENT)
        shows = "plover" in real.text or (not attempt.asks_for_secret and secret in real.text)
        is_open = attempt.kind == MASK and attempt.is_answered
        if shows or real.is_refused is is_open or (attempt.asks_for_secret and not alike):
            succeeded_ones.append((str(attempt), real.text[:300]))
    assert not succeeded_ones, succeeded_ones
    assert files(demo) == before
    assert not [*demo.root.local.parent.glob("outside.csv.*")]
    new = calls(demo)[lines:]
    assert len(new) == len(ATTEMPTS) + sum(each.asks_for_secret for each in ATTEMPTS)
    refused = sum(each[0].is_refused for each in heard) + sum(each[1].is_refused for each in heard)
    assert sum(each["level"] == "warning" for each in new) == refused


async def _made(agent: Agent, tool: str, given: dict[str, Any]) -> Heard:
    return await agent.read(str(given["uri"])) if tool == READ else await agent.call(tool, **given)
