"""Operations on the process that raises alerts as jobs, as those on the stream of tables (orchestration/strandline_dagster/on_call.py)."""

from dagster import JobDefinition, OpExecutionContext, job, op

from strandline.engine.runtime.log_records import last_error
from strandline.engine.service.background_stream import Always
from strandline.engine.service.stream_health import Ill
from strandline_dagster.on_call import Incident, Reason, given_up, started
from strandline_dagster.resources import LakeResource
from strandline_dagster.runbook import Alarm

RESTARTS = "launch the job `restart_alerts` or type `strandline alerts --background`"


@op(description="Stop the process that raises alerts, and keep it stopped.")
def pause_alerts_process(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Pause."""
    stopped = _process(context, lake).pause(config.why)
    context.log.info("the process is stopped" if stopped else "no process of this lake was running")


@op(description="Stop the process that raises alerts, if it runs, and start it.")
def restart_alerts_process(context: OpExecutionContext, config: Reason, lake: LakeResource) -> None:
    """Restart."""
    started(context, lambda process: process.restart(config.why), _process(context, lake))


@op(
    description="Start the process that raises alerts again, when it died; fail, so that a person is alerted, when no "
    "attempt is left."
)
def revive_alerts_process(
    context: OpExecutionContext, config: Incident, lake: LakeResource
) -> None:
    """Revive."""
    process = _process(context, lake)
    context.log.warning(config.says)
    context.log.warning("last error of its log: %s", last_error(process.log.local))
    if config.gives_up:
        raise given_up(process, config, RESTARTS, Alarm(f"alerts_{config.ill}"))
    started(context, lambda each: each.again(ends=config.ill != Ill.DEAD), process)


def _process(context: OpExecutionContext, lake: LakeResource) -> Always:
    return lake.alerts(f"run {context.run_id[:8]}")


@job(name="pause_alerts", description="Stop the process that raises alerts and keep it stopped.")
def pause_alerts() -> None:
    """Pause."""
    pause_alerts_process()


@job(name="restart_alerts", description="Stop the process that raises alerts and start it again.")
def restart_alerts() -> None:
    """Restart."""
    restart_alerts_process()


@job(
    name="revive_alerts",
    description="For the watchdog: start the process that raises alerts again. Each run is an incident.",
)
def revive_alerts() -> None:
    """Revive."""
    revive_alerts_process()


JOBS: list[JobDefinition] = [restart_alerts, pause_alerts, revive_alerts]
