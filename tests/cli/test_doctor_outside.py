"""``doctor`` tries what the settings name beside lake, Kafka and database, by what answers and by what does not."""

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from strandline.engine.runtime.settings import settings
from strandline.operate.doctor import outside
from strandline_infra.setup import Check

USER = "ann:hunter2"
UNKNOWN = b'{"error_code": 40403, "message": "Schema 1 not found"}'


class _Answers(BaseHTTPRequestHandler):
    """A registry that knows no schema and wants a password; elsewhere it is no registry."""

    def do_GET(self) -> None:
        """Answer as Confluent's does."""
        is_known = self.headers.get("Authorization") is not None
        is_schema = self.path.startswith("/schemas/ids/1")
        body = UNKNOWN if is_known and is_schema else b'{"error_code": 40101, "message": "no"}'
        status = 404 if not is_schema or is_known else 401
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def answers() -> Iterator[int]:
    """Return the port of a registry."""
    server = HTTPServer(("127.0.0.1", 0), _Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def closed() -> Iterator[int]:
    """Return a port that takes no connection."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound and not listening: no other program gets it
        yield bound.getsockname()[1]


def check(name: str, **given: object) -> Check:
    """Try what settings name, and return one of the checks."""
    return next(each for each in outside(settings(**given)) if each.name == name)


def test_a_registry_is_asked_with_its_credentials(answers: int, closed: int) -> None:
    """That its port takes connections would say nothing about them."""
    user = {"basic.auth.user.info": USER}
    address = f"http://127.0.0.1:{answers}"

    there = check("schema_registry", schema_registry=address, schema_registry_options=user)
    refused = check("schema_registry", schema_registry=address)
    other = check("schema_registry", schema_registry=f"{address}/x", schema_registry_options=user)
    away = check("schema_registry", schema_registry=f"http://127.0.0.1:{closed}")

    assert (there.ok, there.detail) == (True, f"{address} answers")
    assert "refuses the client" in refused.detail
    assert "does not answer as a schema registry" in other.detail
    assert "does not answer" in away.detail
    assert all(not each.ok and each.hint for each in (refused, other, away))


def test_a_folder_of_rules_that_is_not_there_fails(tmp_path: Path) -> None:
    """Zero rules, none refused, would pass for an empty folder."""
    (tmp_path / "empty").mkdir()

    assert check("rules", rules=tmp_path / "empty").ok
    found = check("rules", rules=tmp_path / "nope")
    assert not found.ok
    assert found.detail == f"there is no folder {tmp_path / 'nope'}"


def test_an_archive_for_executors_is_looked_for(tmp_path: Path) -> None:
    """Spark would start, and every task fail."""
    archive = tmp_path / "packages.tar.gz"

    assert not check("executor_python", executor_python=str(archive)).ok
    archive.touch()
    assert check("executor_python", executor_python=str(archive)).ok


def test_the_receiver_of_lineage_is_connected_to(
    answers: int, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its user is not shown; a configuration that its client refuses is a mistake too."""
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://{USER}@127.0.0.1:{answers}")
    assert check("lineage").detail == f"127.0.0.1:{answers} takes connections; nothing was sent"

    monkeypatch.setenv("OPENLINEAGE_URL", f"http://{USER}@127.0.0.1:{closed}")
    away = check("lineage")
    assert not away.ok
    assert "hunter2" not in f"{away.detail} {away.hint}"

    monkeypatch.delenv("OPENLINEAGE_URL")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "nope")
    assert not check("lineage").ok


def test_the_receiver_of_telemetry_is_connected_to(
    answers: int, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A protocol that is not used here is a mistake, and what is switched off is none."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{USER}@127.0.0.1:{answers}")
    assert check("telemetry").detail == f"127.0.0.1:{answers} takes connections; nothing was sent"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert "http/protobuf" in check("telemetry").detail
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert check("telemetry").ok

    monkeypatch.delenv("OTEL_SDK_DISABLED")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_PROTOCOL")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{USER}@127.0.0.1:{closed}")
    away = check("telemetry")
    assert not away.ok
    assert "hunter2" not in f"{away.detail} {away.hint}"
