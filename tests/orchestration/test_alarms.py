"""Whoever is on call hears of each run that fails, with its kind and what to do; an alarm that nobody takes is no secret."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from dagster import build_run_status_sensor_context, job, op

from jobs.core.errors import DataError, DefinitionError, LakeError, TransientError
from orchestration.alarms import tell, tell_of_failures
from orchestration.failures import failure
from tests.support.instance import ephemeral

ERRORS = {
    "transient": TransientError("the broker is away", hint="wait."),
    "data": DataError("rows are not believed", hint="look at them."),
    "definition": DefinitionError("a column is missing", hint="correct it."),
}


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """Listen where alarms are sent."""
    told: list[dict[str, str]] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("STRANDLINE_WEBHOOK", f"http://127.0.0.1:{server.server_port}/alarm")
        yield told
        server.shutdown()


@pytest.mark.parametrize("kind", list(ERRORS))
def test_a_run_that_failed_is_told_with_what_is_to_be_done(
    kind: str, heard: list[dict[str, str]]
) -> None:
    fails(ERRORS[kind])

    (alarm,) = heard
    assert alarm["kind"] == kind
    assert alarm["steps"] == ["step"]
    assert ERRORS[kind].message in alarm["says"]
    assert "hint:" in alarm["says"]


def test_what_nobody_foresaw_is_told_as_that(heard: list[dict[str, str]]) -> None:
    fails(ZeroDivisionError("division by zero"))

    (alarm,) = heard
    assert alarm["kind"] == "unforeseen"
    assert "division by zero" in alarm["says"]


def test_an_alarm_that_nobody_takes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRANDLINE_WEBHOOK", "http://127.0.0.1:9/alarm")

    with pytest.raises(TransientError, match="was not taken"):
        tell({"job": "catch_up"})


def fails(error: Exception) -> None:
    """Run a job that fails, and let the sensor see it."""

    @op
    def step() -> None:
        if isinstance(error, LakeError):
            raise failure(error)
        raise error

    @job
    def broken() -> None:
        step()

    instance = ephemeral()
    done = broken.execute_in_process(instance=instance, raise_on_error=False)
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    (event,) = [e for e in done.all_events if e.event_type_value == "PIPELINE_FAILURE"]
    context = build_run_status_sensor_context(
        sensor_name=tell_of_failures.name,
        dagster_instance=instance,
        dagster_run=run,
        dagster_event=event,
    )
    tell_of_failures(context.for_run_failure())
