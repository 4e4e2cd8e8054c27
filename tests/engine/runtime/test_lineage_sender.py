"""Events arrive in order where a receiver answers; one that is down, slow or not named holds up nothing."""

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState

from strandline.engine.flow.lineage_events import Sender, sender
from strandline.engine.runtime.processes import bind
from strandline.engine.runtime.settings import lineage_namespace
from tests.support.lineage import PATH, cataloguing, read

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
LONG = 60.0


@pytest.fixture(autouse=True)
def _unconfigured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Begin where nothing is configured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [each for each in os.environ if each.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    yield
    for name in [each for each in os.environ if each.startswith("OPENLINEAGE")]:
        del os.environ[name]  # its client adds some of its own


def event(name: str) -> RunEvent:
    return RunEvent(
        eventType=RunState.START,
        eventTime=NOON.isoformat(),
        run=Run(runId=str(uuid4())),
        job=Job(namespace="tests", name=name),
    )


def client(address: str) -> OpenLineageClient:
    once = {"total": 0, "connect": 0, "read": 0}
    return OpenLineageClient(config={"transport": {"type": "http", "url": address, "retry": once}})


@pytest.mark.whole
def test_events_arrive_in_their_order() -> None:
    with cataloguing() as catalog:
        sends = Sender(client(catalog.address), pytest.fail)
        for number in range(20):
            sends.send(event(str(number)))
        sends.drain(LONG)

    assert [each["job"]["name"] for each in catalog.events] == [*map(str, range(20))]
    assert set(catalog.paths) == {PATH}


@pytest.mark.whole
def test_a_receiver_that_is_down_is_reported_once_and_again_after_it_was_back() -> None:
    reasons = list[str]()
    sends = Sender(client(f"http://127.0.0.1:{bind(0)}"), reasons.append)
    for _ in range(3):
        sends.send(event("a"))
    sends.drain(LONG)
    assert len(reasons) == 1
    assert reasons[0].startswith("no lineage is sent: ")
    with cataloguing() as catalog:
        sends._client = client(catalog.address)
        sends.send(event("b"))
        sends.drain(LONG)
    sends.send(event("c"))
    sends.drain(LONG)

    assert [each["job"]["name"] for each in catalog.events] == ["b"]
    assert len(reasons) == 2


def test_a_reason_has_no_password() -> None:
    """A receiver that refuses is named with its address, as it was configured."""
    reasons = list[str]()
    with cataloguing() as catalog:
        catalog.status = 401
        sends = Sender(client(catalog.address.replace("//", "//me:hunter2@")), reasons.append)
        sends.send(event("a"))
        sends.drain(LONG)

    (reason,) = reasons
    assert "401" in reason
    assert "hunter2" not in reason


def test_a_receiver_that_does_not_answer_holds_up_nothing_and_what_is_too_much_is_dropped() -> None:
    """It answers only when all was put and the program's end has been waited for in vain."""
    answers, reasons = threading.Event(), list[str]()
    with cataloguing(lambda: (answers.wait(LONG), None)[1]) as catalog:
        sends = Sender(client(catalog.address), reasons.append, length=2)
        for number in range(10):
            sends.send(event(str(number)))
        sends.drain(0.05)
        assert catalog.events == []
        answers.set()
        sends.drain(LONG)

    names = [each["job"]["name"] for each in catalog.events]
    assert names[:2] == ["0", "1"]
    assert 2 <= len(names) <= 3  # one was on its way
    assert reasons == ["no lineage is sent: more than 2 events wait; newer ones are dropped"]


@pytest.mark.parametrize("name", ["OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "a file"])
def test_only_a_configuration_of_openlineage_makes_a_sender(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its client would write events to the log where nothing is configured."""
    assert lineage_namespace() is None
    assert sender.__wrapped__(pytest.fail) is None
    events, file = tmp_path / "events", tmp_path / "openlineage.yml"
    config = f"transport: {{type: file, log_file_path: {events}, append: true}}\n"
    with cataloguing() as catalog:
        match name:
            case "OPENLINEAGE_URL":
                monkeypatch.setenv(name, catalog.address)
            case "OPENLINEAGE_CONFIG":
                (tmp_path / "other.yml").write_text(config)
                monkeypatch.setenv(name, str(tmp_path / "other.yml"))
            case _:
                file.write_text(config)
        assert lineage_namespace() == "strandline"
        sends = sender.__wrapped__(pytest.fail)
        assert sends is not None
        sends.send(event("a"))
        sends.drain(LONG)

    assert [each["job"]["name"] for each in [*catalog.events, *read(events)]] == ["a"]
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert lineage_namespace() is None


def test_the_password_in_the_address_of_a_repository_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Asked for its facet about git, OpenLineage's client adds the address of the remote as the repository has it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    remote = '[remote "origin"]\n\turl = https:' + "//git:hunter2@127.0.0.1/x.git\n"
    (tmp_path / ".git" / "config").write_text(remote)
    (tmp_path / "openlineage.yml").write_text("facets: {source_code_location: {disabled: false}}\n")
    with cataloguing() as catalog:
        monkeypatch.setenv("OPENLINEAGE_URL", catalog.address)
        OpenLineageClient().emit(event("theirs"))
        sends = sender.__wrapped__(pytest.fail)
        assert sends is not None
        sends.send(event("ours"))
        sends.drain(LONG)

    theirs, ours = catalog.events
    assert "hunter2" in str(theirs)
    assert "hunter2" not in str(ours)
