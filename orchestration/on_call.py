"""What whoever is on call does to the always-on stream, as jobs, so that it stands in the list of runs who did what and why.

They do what the command line does (jobs/cli/oncall.py). ``revive`` is the watchdog's own: each of its runs is an incident,
and the one that fails says that a person is asked.
"""

from collections.abc import Callable
from typing import TypeAlias

from dagster import (
    AssetMaterialization,
    Config,
    Failure,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    job,
    op,
)
from pydantic import Field

from jobs.cli import goback, place
from jobs.cli.again import again
from jobs.core.errors import LakeError
from jobs.core.table import Table
from jobs.run.always import Always, last_words
from jobs.run.ledger import Entry
from jobs.run.order import order
from jobs.run.rewind import rewind
from jobs.run.tidy import left, take_away
from jobs.run.watch import Ill
from orchestration.catch_up import bring_up
from orchestration.failures import failure
from orchestration.keys import key
from orchestration.resources import LakeResource, SparkResource
from orchestration.runbook import section

Start: TypeAlias = Callable[[Always], int]


class Said(Config):
    """Why somebody does it."""

    why: str = Field(default="", description="Written down for whoever looks next.")


class Back(Config):
    """Where to go back to."""

    table: str = Field(description="A silver or gold table, such as silver.device_telemetry.")
    to: str = Field(description="A moment of arrival, in UTC, or topic/partition:offset.")
    go: bool = Field(default=False, description="Do it; without this it is only shown.")


class Incident(Config):
    """What the watchdog found."""

    ill: str = Field(description="What is wrong: dead, silent or stuck.")
    says: str = Field(description="The same as a sentence.")
    gives_up: bool = Field(default=False, description="Whether it was tried often enough.")


@op(description="Stop the stream after the batches that it has begun, and keep it stopped.")
def pause_stream(context: OpExecutionContext, config: Said, lake: LakeResource) -> None:
    """Pause."""
    stopped = _stream(context, lake).pause(config.why)
    context.log.info("the stream is stopped" if stopped else "no stream of ours was running")


@op(description="Start the stream, or find it running, and wait until it lives.")
def resume_stream(context: OpExecutionContext, config: Said, lake: LakeResource) -> None:
    """Resume."""
    _lives(context, lambda stream: stream.resume(None, config.why), lake)


@op(
    description="Stop the stream after its batches and start it again; failures before are forgotten."
)
def restart_stream(context: OpExecutionContext, config: Said, lake: LakeResource) -> None:
    """Restart."""
    _lives(context, lambda stream: stream.restart(config.why), lake)


@op(
    description="Stop the stream, then read what is there to the end, so that nothing waits while it rests."
)
def drain_stream(
    context: OpExecutionContext, config: Said, lake: LakeResource, spark: SparkResource
) -> None:
    """Drain."""
    _stream(context, lake).pause(config.why)
    bring_up(context, lake, spark)


@op(
    description="Start a stream that died once more; fail, so that a person is asked, when that was tried often enough."
)
def revive_stream(context: OpExecutionContext, config: Incident, lake: LakeResource) -> None:
    """Revive."""
    context.log.warning(config.says)
    context.log.warning("its last words: %s", last_words(lake.lake().log("stream")))
    if config.gives_up:
        raise _given_up(context, config, lake)
    _lives(context, lambda stream: stream.again(ends=config.ill != Ill.DEAD), lake)


@op(
    description="Show what arrived from a moment or an offset on; with go, compute the days of which it speaks again."
)
def go_back(
    context: OpExecutionContext, config: Back, lake: LakeResource, spark: SparkResource
) -> None:
    """Go back."""
    where = lake.lake()
    try:
        table = place.derived(config.table, where)
        plan = rewind(table, where, goback.begin(config.to))
        for line in goback.lines(plan):
            context.log.info(line)
        if not config.go:
            return
        span = goback.possible(table, where, plan)
        for each, entry in again(spark.spark_session, table, where, span, downstream=True):
            if entry:
                context.log_event(_again(each, entry))
    except LakeError as error:
        raise failure(error) from error


@op(description="Take away what killed batches and proofs have left behind.")
def tidy_up(context: OpExecutionContext, lake: LakeResource) -> None:
    """Tidy up."""
    try:
        found = list(left(lake.lake(), place.now()))
    except LakeError as error:
        raise failure(error) from error
    for each in found:
        take_away(each)
        context.log.info("%s: %s bytes, %s", each.path, each.size, each.why)
    context.log.info("%s taken away", len(found))


def _again(table: Table, entry: Entry) -> AssetMaterialization:
    said = {"since": entry.since, "until": entry.until, "came": entry.came, "gone": entry.gone}
    return AssetMaterialization(key(table), metadata=said)


def _given_up(context: OpExecutionContext, incident: Incident, lake: LakeResource) -> Failure:
    stream = _stream(context, lake)
    asked = order(stream.lake)
    if asked:
        stream.note(asked.given_up(stream.clock()))
    tried = len(asked.attempts) if asked else 0
    return Failure(
        f"{incident.says}. It was started again {tried} times; a person is needed.\n\n"
        "hint: remove the cause, then launch the job `restart` or type `strandline restart`.",
        metadata={
            "last words": last_words(stream.lake.log("stream")),
            "attempts": MetadataValue.json(list(asked.attempts) if asked else []),
            "log": MetadataValue.path(str(stream.lake.log("stream"))),
            "runbook": MetadataValue.md(section(incident.ill)),
        },
        allow_retries=False,
    )


def _stream(context: OpExecutionContext, lake: LakeResource) -> Always:
    return lake.stream(f"run {context.run_id[:8]}")


def _lives(context: OpExecutionContext, start: Start, lake: LakeResource) -> None:
    try:
        pid = start(_stream(context, lake))
    except LakeError as error:
        raise failure(error) from error
    context.log.info("the stream lives: process %s", pid)


@job(name="pause", description="Stop the always-on stream and keep it stopped.")
def pause() -> None:
    """Pause."""
    pause_stream()


@job(name="resume", description="Start the always-on stream and keep it running.")
def resume() -> None:
    """Resume."""
    resume_stream()


@job(name="restart", description="Stop the always-on stream and start it again.")
def restart() -> None:
    """Restart."""
    restart_stream()


@job(name="drain", description="Stop the always-on stream and read what is there to the end.")
def drain() -> None:
    """Drain."""
    drain_stream()


@job(
    name="revive", description="The watchdog's: start a stream that died. Each run is an incident."
)
def revive() -> None:
    """Revive."""
    revive_stream()


@job(
    name="rewind", description="Read again from bronze what arrived from a moment or an offset on."
)
def rewind_job() -> None:
    """Rewind."""
    go_back()


@job(name="maintenance", description="Take away what belongs to nothing.")
def maintenance() -> None:
    """Maintain."""
    tidy_up()


JOBS: list[JobDefinition] = [restart, drain, pause, resume, rewind_job, maintenance, revive]
