"""Alarms of the lake reach people once, again when they are about more, and when they are over; by the conditions of Prometheus' file."""

import email
import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope

from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.processes import free
from strandline.engine.service import alarms
from strandline.engine.service.alarms import (
    AGAIN,
    PAUSES,
    Alarms,
    Condition,
    Mail,
    Message,
    PagerDuty,
    Receiver,
    Webhook,
    _Expression,
    conditions,
    figures_of,
    receivers,
)
from strandline.engine.service.metrics import AT, BEHIND, GATE, LAG, UP, LedgerFigures
from strandline.engine.service.metrics_page import AGE, METRICS, OVERDUE, PARTS, SKEW, SKEW_WAIT
from tests.architecture.tree import ROOT
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written
from tests.support.watched_lake import look, watched_lake

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
BALANCED = next(each for each in METRICS if each.name == "strandline_ledger_balanced")
WRONG = Condition(
    name="StrandlineUnbalanced",
    expr="strandline_ledger_balanced == 0",
    seconds=300,
    severity="critical",
    summary="Not every row that {{ $labels.table }} has read is in exactly one place.",
    runbook="infra/runbooks/README.md#the-ledger-does-not-balance",
)


@dataclass(slots=True)
class Heard:
    """What a receiver got, and whether it answers."""

    shown: str = "ann"
    answers: bool = True
    messages: list[Message] = field(default_factory=list)
    asked: int = 0

    @property
    def id(self) -> str:
        """Return its name, which no other has here."""
        return self.shown

    def send(self, message: Message) -> Exception | None:
        """Take a message."""
        self.asked += 1
        if not self.answers:
            return ConnectionRefusedError("https://localhost/secret refuses")
        self.messages.append(message)
        return None


class Watch:
    """Alarms over a clock that is moved by hand."""

    def __init__(self, lake: Lake, *to: Receiver) -> None:
        """Begin at noon."""
        self.now, self.said, self.lake, self.to = NOW, list[str](), lake, to
        self.alarms = self.started()

    def started(self) -> Alarms:
        """Return what a new process begins with."""
        return Alarms(
            self.lake,
            self.to,
            lambda: self.now,
            self.said.append,
            runbooks="https://localhost/lake/",
            rules=[WRONG],
        )

    def look(self, *wrong: str, after: float = 0.0) -> None:
        """Look some seconds later, when these tables are wrong."""
        self.now += timedelta(seconds=after)
        tables = {"silver.a", "silver.b", *wrong}
        self.alarms.look([BALANCED.of(each not in wrong, each) for each in sorted(tables)])


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def watch(lake: Lake, heard: Heard) -> Iterator[Watch]:
    found = Watch(lake, heard)
    yield found
    found.alarms.end()


def test_an_alarm_is_sent_once_when_it_has_held_and_once_when_it_is_over(
    watch: Watch, heard: Heard
) -> None:
    watch.look("silver.a")
    watch.look("silver.a", after=299)
    assert heard.messages == []
    watch.look("silver.a", after=1)
    for _ in range(10):
        watch.look("silver.a", after=600)
    watch.look(after=15)
    for _ in range(3):
        watch.look(after=600)

    begins, ends = heard.messages
    assert (begins.is_over, ends.is_over) == (False, True)
    assert begins.key == ends.key
    assert (
        begins.says
        == ends.says
        == ["Not every row that silver.a has read is in exactly one place."]
    )
    assert begins.since == NOW.isoformat(timespec="seconds")
    assert (
        begins.runbook
        == "https://localhost/lake/infra/runbooks/README.md#the-ledger-does-not-balance"
    )


def test_what_comes_and_goes_before_its_time_is_not_sent(watch: Watch, heard: Heard) -> None:
    for _ in range(20):
        watch.look("silver.a", after=100)
        watch.look(after=100)
    assert heard.asked == 0


def test_three_hundred_tables_are_one_message_and_further_ones_another(
    watch: Watch, heard: Heard
) -> None:
    many = [f"silver.t{n}" for n in range(300)]
    watch.look(*many)
    watch.look(*many, after=300)
    watch.look(*many, "silver.a", after=15)
    watch.look(*many, "silver.a", after=300)
    assert len(heard.messages) == 1, "another table is no second page at once"
    watch.look(*many, "silver.a", after=AGAIN)
    assert [len(each.says) for each in heard.messages] == [300, 301]
    assert len(heard.messages[0].lines) == alarms.NAMED + 1


def test_a_start_says_nothing_twice_and_forgets_no_end(watch: Watch, heard: Heard) -> None:
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    watch.alarms.end()
    watch.alarms = watch.started()
    watch.look("silver.a", after=15)
    assert [each.is_over for each in heard.messages] == [False]
    watch.alarms.end()
    watch.alarms = watch.started()
    watch.look(after=15)
    assert [each.is_over for each in heard.messages] == [False, True]


def test_a_receiver_that_is_away_is_tried_again_with_pauses_and_then_given_up(
    lake: Lake, heard: Heard
) -> None:
    """The others get it at once; what is said has no address, which is a secret."""
    other = Heard(shown="bob")
    watch, heard.answers = Watch(lake, heard, other), False
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    assert len(other.messages) == 1
    for _ in range(400):
        watch.look("silver.a", after=30)
    assert heard.asked == len(PAUSES) + 1
    assert len(watch.said) == 2
    assert "secret" not in "".join(watch.said)
    heard.answers = True
    watch.look(after=30)
    assert [each.is_over for each in heard.messages] == [True]
    assert len(other.messages) == 2
    watch.alarms.end()


def test_it_is_sent_when_the_receiver_is_back_and_not_if_it_is_over_by_then(
    watch: Watch, heard: Heard
) -> None:
    heard.answers = False
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    heard.answers = True
    watch.look("silver.a", after=PAUSES[0])
    assert [each.is_over for each in heard.messages] == [False]
    watch.look(after=15)
    heard.answers = False
    watch.look("silver.b", after=15)
    watch.look("silver.b", after=300)
    heard.answers = True
    watch.look(after=15)
    watch.look(after=600)
    assert [each.is_over for each in heard.messages] == [False, True]


def test_a_clock_that_was_a_year_ahead_keeps_no_alarm_from_people(
    watch: Watch, heard: Heard
) -> None:
    """A server was set right: what is wrong since then is known as soon as ever."""
    heard.answers = False
    year = timedelta(days=365).total_seconds()
    watch.look("silver.a", after=year)
    watch.look("silver.a", after=300)
    assert heard.asked == 1
    heard.answers = True
    watch.look("silver.a", after=-year)
    watch.look("silver.a", after=300)
    assert [each.is_over for each in heard.messages] == [False]


def test_one_process_of_a_machine_sends(watch: Watch, heard: Heard) -> None:
    second = watch.started()
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    second.look([BALANCED.of(0, "silver.a")])
    second.look([BALANCED.of(0, "silver.a")])
    assert len(heard.messages) == 1
    assert len([each for each in watch.said if "another process" in each]) == 1


def test_a_torn_file_sends_once_more_and_ends_nothing(watch: Watch, heard: Heard) -> None:
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    watch.alarms.end()
    watch.alarms._file.put('{"Strand')
    watch.alarms = watch.started()
    watch.look("silver.a", after=15)
    watch.look("silver.a", after=300)
    assert [each.is_over for each in heard.messages] == [False, False]


def test_each_of_two_receivers_on_one_host_gets_the_alarm_and_its_end(lake: Lake) -> None:
    """Two channels and two services have one name in messages; one that fails keeps nothing from the others."""
    with posted() as (host, came), posted(202) as (duty, paged):
        words = [f"slack+http://{host}/ops-s3cret", f"slack+http://{host}/data-s3cret"]
        words += [f"pagerduty+http://{key}@{duty}/v2/enqueue" for key in ("K1-s3cret", "K2-s3cret")]
        watch = Watch(lake, *receivers(" ".join(words)))
        watch.look("silver.a")
        watch.look("silver.a", after=300)
        stored = watch.alarms._file.text() or ""
        watch.look(after=15)
        watch.alarms.end()
    assert [path for path, _ in came] == ["/ops-s3cret", "/data-s3cret"] * 2
    assert [each["routing_key"] for _, each in paged] == ["K1-s3cret", "K2-s3cret"] * 2
    assert "slack at" in stored
    assert "s3cret" not in stored

    with posted(500) as (host, refused):
        watch = Watch(lake, *receivers(f"slack+http://{host}/a slack+http://{host}/b"))
        watch.look("silver.a")
        watch.look("silver.a", after=300)
        watch.alarms.end()
    assert [path for path, _ in refused] == ["/a", "/b"]


def test_a_file_of_before_says_nothing_twice_to_its_receiver(lake: Lake) -> None:
    """It has names, and of two receivers with one name the first had got the alarm."""
    with posted() as (host, came):
        watch = Watch(lake, *receivers(f"slack+http://{host}/a slack+http://{host}/b"))
        about = json.dumps([["table", "silver.a"]])
        at = NOW.timestamp()
        sent = {"about": [about], "at": at, "tries": 0, "due": 0.0}
        known = {"since": {about: at - 900}, "says": {about: "wrong"}}
        before = {WRONG.name: {**known, "sent": {f"slack at {host}": sent}}}
        watch.alarms._file.put(json.dumps(before))
        watch.look("silver.a")
        assert [path for path, _ in came] == ["/b"]
        watch.look(after=15)
        watch.alarms.end()
    assert [path for path, _ in came] == ["/b", "/a", "/b"]


def test_a_table_that_comes_again_while_the_incident_lasts_is_sent_again(
    watch: Watch, heard: Heard
) -> None:
    """Days later: that it was mended once is no reason to keep it from people; the end names all of them."""
    watch.look("silver.a", "silver.b")
    watch.look("silver.a", "silver.b", after=300)
    watch.look("silver.b", after=3 * 86_400)
    watch.look("silver.a", "silver.b", after=3 * 86_400)
    assert len(heard.messages) == 1
    watch.look("silver.a", "silver.b", after=300)
    assert [len(each.says) for each in heard.messages] == [2, 2]
    watch.look("silver.b", after=AGAIN)
    watch.look(after=300)
    assert [each.is_over for each in heard.messages] == [False, False, True]
    assert len(heard.messages[-1].says) == 2


def test_another_table_in_the_place_of_the_one_that_is_mended_waits_for_its_quarter_of_an_hour(
    watch: Watch, heard: Heard
) -> None:
    watch.look("silver.a", "silver.b")
    watch.look("silver.a", after=299)
    watch.look("silver.a", "silver.b", after=1)
    watch.look("silver.b", after=300)
    assert len(heard.messages) == 1
    watch.look("silver.b", after=AGAIN)
    assert [len(each.says) for each in heard.messages] == [1, 1]
    watch.look(after=15)
    assert len(heard.messages[-1].says) == 2


def test_what_is_not_known_ends_no_alarm(watch: Watch, heard: Heard) -> None:
    """A start while the store is away: what was wrong is not mended by that."""
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    watch.alarms.end()
    watch.alarms = watch.started()
    for _ in range(3):
        watch.now += timedelta(seconds=600)
        watch.alarms.look([], {BALANCED})
    assert [each.is_over for each in heard.messages] == [False]
    watch.now += timedelta(seconds=15)
    watch.alarms.look([BALANCED.of(1, "silver.b")], {BALANCED})
    assert len(heard.messages) == 1, "of another table it is known"
    watch.alarms.look([BALANCED.of(1, "silver.a")], {BALANCED, AGE})
    assert [each.is_over for each in heard.messages] == [False, True]


def test_batches_that_wait_for_one_task_are_an_alarm_after_a_while(
    tmp_path: Path, heard: Heard
) -> None:
    """By the newest entry of each table: not one whose tasks are alike, and no single batch, though the next one comes in an hour."""
    lake = small_lake(tmp_path)
    of = {BRONZE: (40_000, 1_000), SILVER: (30_000, 2_000), GOLD: (30_000, 9_000)}
    for table, uneven in of.items():
        written(lake.table(table), numbers(1), entry(table, batch=9, uneven_ms=uneven).encoded())
    found = [each for each in look(lake, NOW).samples() if each.metric in {SKEW, SKEW_WAIT}]
    times = [NOW]
    watch = Alarms(lake, [heard], lambda: times[0], lambda _: None)
    for _ in range(3):
        ends = (AT.of(times[0].timestamp(), each.id) for each in (SILVER, GOLD))
        watch.look([*found, AT.of(NOW.timestamp(), BRONZE.id), *ends])
        times[0] += timedelta(minutes=10)
    for _ in range(2):  # it is over with a batch that has little to do
        watch.look([SKEW.of(0, SILVER.id), SKEW_WAIT.of(0, SILVER.id)])
        times[0] += timedelta(minutes=10)
    watch.end()

    mine = [each for each in heard.messages if each.name == "StrandlineSkewed"]
    assert [each.is_over for each in mine] == [False, True]
    assert list(mine[0].says) == [
        f"The longest task of {SILVER.id} takes 15 times as long as the median one, and its batches wait for it."
    ]
    assert mine[0].runbook.endswith("#batches-wait-for-one-task")


def test_a_look_knows_what_it_could_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of no tables promises and gates would be empty; once they were read they are kept, and known."""
    lake = watched_lake(tmp_path, NOW)
    assert {each for of in PARTS.values() for each in of} <= {*METRICS}
    with monkeypatch.context() as away:
        away.setattr(LedgerFigures, "follow", refused)
        first = look(lake, NOW)
        assert {BALANCED, AGE, GATE} <= first.unknown
        assert not {each.metric for each in first.samples()} & {BALANCED, AGE, GATE}
        assert UP not in first.unknown
    first.look()
    assert first.unknown == set()
    shown = {each for each in first.samples() if each.metric in {BALANCED, OVERDUE, GATE}}
    assert {each.metric for each in shown} == {BALANCED, OVERDUE, GATE}
    with monkeypatch.context() as away:
        away.setattr(LedgerFigures, "follow", refused)
        first.look()
    assert first.unknown == set()
    assert shown <= {*first.samples()}
    lake.heartbeat.remove_file()
    first.look()
    assert first.unknown == {LAG, BEHIND}, "of bronze neither a stream nor Kafka says it"


def refused(_: object) -> NoReturn:
    raise PermissionError("no")


@contextmanager
def full() -> Iterator[None]:
    """Let each write of this process to a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("from_the_start", [True, False])
def test_a_full_disk_keeps_no_alarm_from_people_and_is_said_once(
    from_the_start: bool,  # noqa: FBT001  # a case
    watch: Watch,
    heard: Heard,
) -> None:
    """That it is full is what they are to know."""
    if not from_the_start:
        watch.look()
    with full():
        watch.look("silver.a")
        for _ in range(5):
            watch.look("silver.a", after=300)
    assert [each.is_over for each in heard.messages] == [False]
    assert len([each for each in watch.said if "not stored: File too large" in each]) == 1
    assert len(watch.said) == 1 + from_the_start
    watch.look("silver.a", after=15)
    watch.alarms.end()
    watch.alarms = watch.started()
    watch.look(after=15)
    assert [each.is_over for each in heard.messages] == [False, True], "with room it is stored"


def test_a_file_that_cannot_be_replaced_ends_nothing(watch: Watch, heard: Heard) -> None:
    watch.alarms._file.make()
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    watch.look(after=15)
    assert [each.is_over for each in heard.messages] == [False, True]
    assert len(watch.said) == 1


def test_whatever_fails_ends_no_page_and_keeps_nothing_from_the_others(
    lake: Lake, heard: Heard
) -> None:
    class Broken(Heard):
        def send(self, message: Message) -> Exception | None:
            raise RuntimeError(message.key)

    watch = Watch(lake, Broken("eve"), heard)
    watch.look("silver.a")
    watch.look("silver.a", after=300)
    assert [each.is_over for each in heard.messages] == [False]
    unknown = replace(WRONG, expr="rate(strandline_a[5m]) > 0")
    watch.alarms._rules = [unknown]
    for _ in range(3):
        watch.look("silver.a", after=15)
    assert len([each for each in watch.said if "cannot be raised: DefinitionError" in each]) == 1
    watch.alarms.end()


# The conditions.


def test_the_conditions_are_all_of_the_file_and_are_understood(tmp_path: Path) -> None:
    """Over a lake with something for every metric: what is wrong in it is found, with its sentence, and nothing else."""
    file = yaml.safe_load((ROOT / "infra" / "monitoring" / "alerts.yml").read_text())
    found = conditions()
    assert [each.name for each in found] == [each["alert"] for each in file["groups"][0]["rules"]]
    lake = watched_lake(tmp_path, NOW)
    samples = figures_of(look(lake, NOW).samples())
    holds = {each.name: each.holds(samples, NOW.timestamp()) for each in found}
    assert {"StrandlineGateShut", "StrandlineFailing"} <= {name for name, of in holds.items() if of}
    (says,) = holds["StrandlineGateShut"].values()
    assert (
        says
        == "The gate of silver.device_telemetry is shut; the tables above it have their last published rows."
    )
    assert not [says for of in holds.values() for says in of.values() if "{{" in says]


SERIES = {
    "strandline_a": {(("table", "x"),): 3.0, (("table", "y"),): 0.0},
    "strandline_b": {(("table", "x"),): 1.0},
    "strandline_free": {(): 4.0},
    "strandline_disk": {(): 100.0},
}


@pytest.mark.parametrize(
    ("expr", "of"),
    [
        ("strandline_a == 3", {"x"}),
        ("strandline_a > 0 and strandline_b == 1", {"x"}),
        ("strandline_a >= 0 and strandline_b == 1", {"x"}),
        ("strandline_b == 1 or strandline_a == 0", {"x", "y"}),
        ('strandline_a{table="y"} == 0', {"y"}),
        ('strandline_a{table="z"} == 0', set()),
        ("strandline_free < 0.05 * strandline_disk", {""}),
        ("strandline_free < 0.04 * strandline_disk", set()),
        ("absent(strandline_gone)", {""}),
        ("absent(strandline_a)", set()),
        ("time() - strandline_disk > 600", {""}),
        ("time() - strandline_disk > 901", set()),
        ("absent(strandline_a) or time() - strandline_disk > 600 or strandline_b == 1", {"", "x"}),
    ],
)
def test_an_expression_is_true_of_what_prometheus_says(expr: str, of: set[str]) -> None:
    found = _Expression(expr, SERIES, 1_000.0).value()
    assert {dict(labels).get("table", "") for labels in found} == of


@pytest.mark.parametrize(
    "expr",
    [
        "rate(strandline_a[5m]) > 0",
        "strandline_a ==",
        "sum by (x) (strandline_a)",
        "up == 0",
        "strandline_a 1",
    ],
)
def test_what_is_not_understood_is_refused(expr: str) -> None:
    """An alarm that is read wrongly would be one that is never raised."""
    with pytest.raises(DefinitionError, match="not understood"):
        _Expression(expr, SERIES, 0.0).value()


# The receivers, each over its protocol.

MESSAGE = Message(
    key="0123",
    name="StrandlineUnbalanced",
    severity="critical",
    is_over=False,
    says=["Not every row of silver.<a> & b is in one place."],
    since="2026-11-25T12:00:00+00:00",
    at="2026-11-25T12:05:00+00:00",
    runbook="https://localhost/infra/runbooks/README.md#x",
    lake="/lake",
    host="node-1",
)
KEY = "R0UT1NG"
OVER = Message(**{**{f: getattr(MESSAGE, f) for f in Message.__slots__}, "is_over": True})


@contextmanager
def posted(status: int = 200) -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Serve a receiver of posts; yield its host and port, and what came, with the path."""
    came = list[tuple[str, dict[str, Any]]]()

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(
                (self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            )
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ear) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", came
        server.shutdown()


def test_slack_gets_a_text_with_the_runbooks_link() -> None:
    with posted() as (host, came):
        (slack,) = receivers(f"slack+http://{host}/services/T0/B0/s3cret")
        assert isinstance(slack, Webhook)
        assert slack.send(MESSAGE) is slack.send(OVER) is None

    (path, begins), (_, ends) = came
    assert path == "/services/T0/B0/s3cret"
    assert [*begins] == ["text"]
    assert "*CRITICAL: Not every row of silver.&lt;a&gt; &amp; b" in begins["text"]
    assert "<https://localhost/infra/runbooks/README.md#x|runbook>" in begins["text"]
    assert "*RESOLVED: " in ends["text"]
    assert "s3cret" not in slack.shown


def test_pagerduty_gets_an_event_that_its_end_resolves() -> None:
    with posted(202) as (host, came):
        (duty,) = receivers(f"pagerduty+http://{KEY}@{host}/v2/enqueue")
        assert isinstance(duty, PagerDuty)
        assert duty.send(MESSAGE) is duty.send(OVER) is None

    (path, begins), (_, ends) = came
    assert path == "/v2/enqueue"
    assert (begins["event_action"], ends["event_action"]) == ("trigger", "resolve")
    assert begins["dedup_key"] == ends["dedup_key"] == "0123"
    assert begins["routing_key"] == KEY
    assert {"summary", "source", "severity"} <= {*begins["payload"]}
    assert begins["payload"]["severity"] in {"critical", "error", "warning", "info"}
    assert begins["links"] == [{"href": MESSAGE.runbook, "text": "runbook"}]
    assert KEY not in duty.shown


class Box:
    """Takes mail."""

    def __init__(self) -> None:
        """Begin empty."""
        self.mails: list[EmailMessage] = []
        self.to: list[list[str]] = []

    async def handle_DATA(self, _server: SMTP, _session: object, envelope: Envelope) -> str:  # noqa: N802  # aiosmtpd's
        """Keep one."""
        content = envelope.content
        assert isinstance(content, bytes)
        mail = email.message_from_bytes(content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        self.to.append(envelope.rcpt_tos)
        return "250 taken"


@contextmanager
def mailbox(**given: Any) -> Iterator[tuple[int, Box]]:  # noqa: ANN401  # of aiosmtpd's server
    """Serve a mail server; yield its port and what came."""
    box, port = Box(), free(0)
    server = Controller(box, hostname="127.0.0.1", port=port, **given)
    server.start()
    try:
        yield port, box
    finally:
        server.stop()


def test_a_mail_has_the_runbook_and_its_end_is_in_the_same_thread() -> None:
    with mailbox() as (port, box):
        (mail,) = receivers(f"smtp://127.0.0.1:{port}?from=lake@test&to=ann@test,bob@test")
        assert isinstance(mail, Mail)
        assert mail.send(MESSAGE) is mail.send(OVER) is None

    begins, ends = box.mails
    assert box.to == [["ann@test", "bob@test"]] * 2
    assert begins["Subject"].startswith("CRITICAL: Not every row")
    assert ends["Subject"].startswith("RESOLVED: ")
    assert begins["References"] == ends["References"] == "<0123@strandline>"
    assert f"runbook  {MESSAGE.runbook}" in begins.get_content()
    assert "over at 2026-11-25T12:05:00+00:00" in ends.get_content()


def test_a_plus_in_an_address_is_none_of_a_form() -> None:
    (mail,) = receivers("smtp://localhost?from=lake+a@test&to=ann+lake@test,bob%2Bx@test")
    assert isinstance(mail, Mail)
    assert (mail.sender, mail.to) == ("lake+a@test", ("ann+lake@test", "bob+x@test"))


def test_no_password_goes_to_a_server_without_tls() -> None:
    """It would be read on its way."""
    seen = list[object]()

    def authenticator(*given: object) -> AuthResult:
        seen.append(given)
        return AuthResult(success=True)

    with mailbox(authenticator=authenticator, auth_require_tls=False) as (port, box):
        (mail,) = receivers(f"smtp://ann:s3cret@127.0.0.1:{port}?from=a@test&to=b@test")
        error = mail.send(MESSAGE)

    assert isinstance(error, ValueError)
    assert (seen, box.mails) == ([], [])


def test_who_is_away_is_an_error_and_not_an_exception() -> None:
    words = f"smtp://127.0.0.1:1?from=a@test&to=b@test slack+http://127.0.0.1:1/x pagerduty+http://{KEY}@127.0.0.1:1"
    assert all(isinstance(each.send(MESSAGE), Exception) for each in receivers(words))
    with posted(500) as (host, _):
        assert isinstance(receivers(f"slack+http://{host}/x")[0].send(MESSAGE), Exception)


@pytest.mark.parametrize(
    "word",
    [
        "https://localhost/s3cret",
        "slack+ftp://s3cret",
        "pagerduty+https://localhost",
        "smtp://there?to=s3cret@x",
        "[s3cret",
    ],
)
def test_what_is_no_receiver_is_refused_without_being_repeated(word: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        receivers(f"slack+https://localhost/x {word}")
    assert "address 2" in refused.value.message
    assert "s3cret" not in f"{refused.value.message}{refused.value.hint}"
