"""The webhook gets each run that fails, with its kind and what to do; an alarm that is not accepted is kept and shown."""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest
from dagster import build_run_status_sensor_context, job, op

from strandline.core.errors import DataError, DefinitionError, LakeError, TransientError
from strandline.engine.lake.lake import Lake
from strandline_dagster import resources
from strandline_dagster.resources import alert_again, alert_of_failures, failure, send
from tests.cli.typed import succeeded
from tests.support.instance import ephemeral

ERRORS = {
    "transient": TransientError("the broker is away", hint="wait."),
    "data": DataError("rows are not believed", hint="look at them."),
    "definition": DefinitionError("a column is missing", hint="correct it."),
}


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """Listen where alarms are sent."""
    received: list[dict[str, str]] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print no line."""

    with HTTPServer(("127.0.0.1", 0), Ear) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("STRANDLINE_WEBHOOK", f"http://127.0.0.1:{server.server_port}/alarm")
        yield received
        server.shutdown()


@pytest.mark.whole
@pytest.mark.parametrize("kind", list(ERRORS))
def test_a_run_that_failed_is_an_alarm_with_what_to_do(
    kind: str, heard: list[dict[str, str]]
) -> None:
    fails(ERRORS[kind])

    (alarm,) = heard
    assert alarm["kind"] == kind
    assert alarm["steps"] == ["step"]
    assert ERRORS[kind].message in alarm["says"]
    assert alarm["runbook"] == f"infra/runbooks/run_{kind}.md"
    assert "hint:" in alarm["says"]


def test_an_unforeseen_error_is_an_alarm_of_that_kind(heard: list[dict[str, str]]) -> None:
    fails(ZeroDivisionError("division by zero"))

    (alarm,) = heard
    assert alarm["kind"] == "unforeseen"
    assert "division by zero" in alarm["says"]


def test_an_alarm_that_is_not_accepted_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRANDLINE_WEBHOOK", "http://127.0.0.1:9/alarm")

    with pytest.raises(TransientError, match="was not accepted"):
        send({"job": "catch_up"})


BAD = {
    "refuses": b"HTTP/1.1 500 No\r\n\r\n",
    "sends on": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\n\r\n",
    "answers something else": b"\0\1\r\n\r\n",
    "ends": b"",
}


@pytest.mark.whole
@pytest.mark.parametrize("answer", list(BAD.values()), ids=list(BAD))
def test_an_answer_that_is_none_is_an_alarm_that_was_not_taken(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        answering(lambda: [answer], monkeypatch),
        pytest.raises(TransientError, match="not accepted"),
    ):
        send({"job": "catch_up"})


@pytest.mark.whole
def test_an_answer_that_never_ends_is_waited_for_no_longer_than_all_of_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A header each moment is no silence, so that no timeout of the socket would end it."""
    monkeypatch.setattr(resources, "PATIENCE", 0.5)
    over = threading.Event()

    def drips() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        while not over.wait(0.05):
            yield b"X: a\r\n"

    with answering(drips, monkeypatch):
        with pytest.raises(TransientError, match="no whole answer"):
            send({"job": "catch_up"})
        over.set()


def test_an_alarm_that_is_not_accepted_is_kept_and_sent_again(
    tmp_path: Path, heard: list[dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster would not come back to the run."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(tmp_path))
    listens = os.environ["STRANDLINE_WEBHOOK"]
    monkeypatch.setenv("STRANDLINE_WEBHOOK", "http://127.0.0.1:9/alarm")
    with pytest.raises(Exception, match="not accepted"):
        fails(ERRORS["data"])
    with pytest.raises(TransientError):
        alert_again()
    status = succeeded("status", "--lake", tmp_path).out
    monkeypatch.setenv("STRANDLINE_WEBHOOK", listens)
    alert_again()
    alert_again()

    assert "alarms  1 not accepted yet" in status
    (alarm,) = heard
    assert alarm["kind"] == "data"
    assert list(Lake(tmp_path).alarms.local.iterdir()) == []


@contextmanager
def answering(
    answer: Callable[[], Iterable[bytes]], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Serve the given answers."""

    class Mouth(StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            for each in answer():
                self.wfile.write(each)

    with ThreadingTCPServer(("127.0.0.1", 0), Mouth) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/alarm"
        monkeypatch.setenv("STRANDLINE_WEBHOOK", address)
        yield
        server.shutdown()


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
        sensor_name=alert_of_failures.name,
        dagster_instance=instance,
        dagster_run=run,
        dagster_event=event,
    )
    alert_of_failures(context.for_run_failure())
