"""Alerts as people get them: notices and who takes them, and one alert of gold with all that is needed to judge it.

A notice is of the alerts that one rule raised, with how many and a few of them. An alert is read from its record in Kafka, as
``strandline alerts`` wrote it; sensitive columns are masked in it already (jobs/strandline/alerting/one_plan.py), and nothing
here adds to it. A record that is no alert is refused with the reason.

The id of a notice is a hash of its receiver, its rule and its first alert, so that the notice that is sent again after a
crash has the id that it had.

An alert is looked up with its rule, its event, where that is, and what to do.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Protocol
from urllib.parse import urlsplit

import confluent_kafka
import orjson

from strandline.alerting.alert_rule import Rule, Severity
from strandline.alerting.tables import gold
from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.kind import RECENT, in_utc
from strandline.engine.ask.locate import World
from strandline.engine.ask.why import why
from strandline.engine.kafka.topic_log import TopicWriter
from strandline.engine.lake.find_rows import Where, look, newest_rows
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.plain_files import append_line, takes_lines
from strandline.engine.runtime.webhook import post
from strandline.project import project
from strandline_infra import installation
from strandline_quality.page import AlertFound

SAMPLES = 3
"""Alerts of a notice that are shown; all are in gold.alerts."""

LONGEST = 2_000
"""Characters of an event that are shown: a command line may have a megabyte, and receivers refuse long messages."""

LONGEST_ID = 200

RUNBOOK = "infra/docs/alert_rules.md#when-a-rule-fires"
"""For a rule that names none, or is in the folder no more."""

Payload = Mapping[str, Any]
"""A notice as it is sent, and as it is stored until it was accepted."""


class NoAlertError(ValueError):
    """A record is no alert; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert, and what of it is shown as a sample."""

    id: str
    rule: str
    version: str
    severity: Severity
    at: datetime
    sample: Mapping[str, str]
    from_history: bool = False
    """Whether it was raised so long after its event that it is recorded and wakes no person."""

    @classmethod
    def of(cls, record: "confluent_kafka.Message") -> "Alert":
        """Read an alert.

        Raises:
            NoAlertError: The record is none.
        """
        try:
            found = orjson.loads(record.value() or b"")
        except ValueError as error:
            raise NoAlertError(f"it is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise NoAlertError("it is no JSON object")
        at = _text(found, "event_at")
        try:
            return cls(
                id=_text(found, "alert_id"),
                rule=_text(found, "rule_id"),
                version=_text(found, "rule_version"),
                severity=Severity(_text(found, "rule_severity")),
                at=(moment := in_utc(datetime.fromisoformat(at))),
                sample=_sample(found),
                from_history=_is_old(record, moment),
            )
        except ValueError as error:
            raise NoAlertError(str(error)) from error


def _is_old(record: "confluent_kafka.Message", event_at: datetime) -> bool:
    """Return whether a record came to the topic when its event was old; one without a time says nothing about it."""
    kind, stamp = record.timestamp()
    return (
        kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
        and stamp / 1000 - event_at.timestamp() > RECENT.total_seconds()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWords:
    """What the files of rules say of a rule, for people."""

    title: str = ""
    owner: str = ""
    runbook: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The alerts of a rule that are in no notice yet.

    Args:
        first_at: The earliest time of their events.
        last_at: The latest one.
        samples: The first of them.
    """

    rule: str
    version: str
    severity: Severity
    count: int
    first_at: datetime
    last_at: datetime
    samples: tuple[Mapping[str, str], ...]

    @classmethod
    def of(cls, alert: Alert) -> "Digest":
        """Begin with an alert."""
        return cls(
            rule=alert.rule,
            version=alert.version,
            severity=alert.severity,
            count=1,
            first_at=alert.at,
            last_at=alert.at,
            samples=(alert.sample,),
        )

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "Digest":
        """Return one that was stored."""
        return cls(
            **{
                **stored,
                "severity": Severity(stored["severity"]),
                "first_at": datetime.fromisoformat(stored["first_at"]),
                "last_at": datetime.fromisoformat(stored["last_at"]),
                "samples": tuple(stored["samples"]),
            }
        )

    def plus(self, alert: Alert) -> "Digest":
        """Return it with one more alert, which may be of a newer version of the rule."""
        return replace(
            self,
            version=alert.version,
            severity=alert.severity,
            count=self.count + 1,
            first_at=min(self.first_at, alert.at),
            last_at=max(self.last_at, alert.at),
            samples=(
                self.samples if len(self.samples) == SAMPLES else (*self.samples, alert.sample)
            ),
        )


def notice(digest: Digest, receiver: str, words: RuleWords) -> Payload:
    """Return the notice of alerts; ``text`` is a sentence, which chat programs show."""
    first = digest.samples[0]
    parts = (receiver, digest.rule, first["alert_id"], first["place"])
    name, runbook = words.title or digest.rule, words.runbook or RUNBOOK
    since, until = digest.first_at.isoformat(), digest.last_at.isoformat()
    when = f"at {since}" if since == until else f"from {since} to {until}"
    many = "1 alert" if digest.count == 1 else f"{digest.count:,} alerts"
    return {
        "delivery_id": hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32],
        "text": f"{digest.severity}: {name}: {many} {when}; runbook: {runbook}",
        "rule": digest.rule,
        "version": digest.version,
        "title": name,
        "severity": digest.severity,
        "owner": words.owner,
        "runbook": runbook,
        "count": digest.count,
        "first_at": since,
        "last_at": until,
        "alerts": list(digest.samples),
    }


def _sample(found: Mapping[str, Any]) -> Mapping[str, str]:
    place = "/".join(str(found.get(f"event_{part}")) for part in ("topic", "partition", "offset"))
    shown = ("alert_id", "event_table", "event_key", "event_at", "event")
    return {**{name: _cut(str(found.get(name) or "")) for name in shown}, "place": place}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise NoAlertError(f"it has no {name}")
    if len(value) > LONGEST_ID:
        raise NoAlertError(f"its {name} has {len(value):,} characters")
    return value


# The receivers of notices: an address, a file, a topic. Each takes a notice or raises; what is raised is tried again.
#
# A receiver is named by what a user typed (``--to``). Its file in the lake has a hash of that in its name, and people see a
# part only: the path of an address is often a password.


TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
IDEMPOTENCY = "Idempotency-Key"
"""The header with the id of a notice, by which a receiver knows one that is sent again."""


class Sink(Protocol):
    """A receiver."""

    @property
    def name(self) -> str:
        """Return what its files in the lake are found by."""

    @property
    def shown(self) -> str:
        """Return what people call it; without anything secret."""

    def send(self, notice: Payload) -> None:
        """Deliver a notice.

        Raises:
            TransientError: It was not accepted.
        """


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address to which each notice is posted."""

    address: str

    @property
    def name(self) -> str:
        """Return what its files are found by."""
        return f"webhook-{_hash(self.address)}"

    @property
    def shown(self) -> str:
        """Return scheme, host and port."""
        found = urlsplit(self.address)
        return f"{found.scheme}://{found.netloc}"

    def send(self, notice: Payload) -> None:
        """Post a notice."""
        refusal = post(self.address, notice, headers={IDEMPOTENCY: notice["delivery_id"]})
        if refusal is not None:
            raise TransientError(
                f"{self.shown} did not accept a notice: {refusal}",
                hint="see that the address answers to a POST of JSON; it is tried again.",
            ) from refusal


@dataclass(frozen=True, slots=True)
class File:
    """A file to which each notice is appended as a line."""

    place: Place

    @property
    def name(self) -> str:
        """Return what its files are found by."""
        return f"file-{_hash(str(self.place))}"

    @property
    def shown(self) -> str:
        """Return its path."""
        return str(self.place)

    def send(self, notice: Payload) -> None:
        """Append a notice."""
        append_line(self.place, orjson.dumps(notice))


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic, of the cluster of the lake; the key of a record is the id of its notice."""

    topic: str
    writer: TopicWriter

    @property
    def name(self) -> str:
        """Return what its files are found by."""
        return f"kafka-{self.topic}"

    @property
    def shown(self) -> str:
        """Return the topic."""
        return f"kafka:{self.topic}"

    def send(self, notice: Payload) -> None:
        """Write a notice."""
        self.writer.write(notice["delivery_id"], orjson.dumps(notice))


def sink(typed: str, locate: Callable[[], str], options: Mapping[str, str], *, read: str) -> Sink:
    """Return the receiver that a user means.

    Args:
        typed: An address, ``file:PATH`` or ``kafka:TOPIC``.
        locate: Returns where Kafka is.
        options: Properties of its client.
        read: The topic that notices are made from; none is written there.

    Raises:
        DefinitionError: It is none.
    """
    kind, _, rest = typed.partition(":")
    if kind in {"http", "https"} and _is_address(typed):
        return Webhook(typed)
    if kind == "file" and rest and not rest.startswith("//"):
        place = Place.of(rest)
        if takes_lines(place):
            return File(place)
    if kind == "kafka" and rest != read and TOPIC.fullmatch(rest):
        return KafkaTopic(rest, TopicWriter(locate, options, rest))
    raise DefinitionError(
        f"alerts cannot be delivered to {kind}:…" if rest else f"{typed!r} is no receiver",
        hint=f"name an address of http or https without a user in it, file:PATH, or kafka:TOPIC; not the topic {read}.",
    )


def _is_address(typed: str) -> bool:
    try:
        found = urlsplit(typed)
        has_host = bool(found.hostname) and found.port != 0
    except ValueError:  # the port is no number
        return False
    return has_host and "@" not in found.netloc and typed.isascii() and typed.isprintable()


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# What to do when a rule fires: the section of the page that the rule names, so that no one has to search for it.
#
# A folder of rules is not trusted, so nothing is read but pages of the project, and of each at most a bound.


LARGEST = 256 * 1024
ADDRESS = re.compile(r"https?://\S+")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
"""Commands, whose comments look as headings do."""

HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)


def is_address(runbook: str) -> bool:
    """Return whether a runbook is a page of the web, to which a link leads."""
    return bool(ADDRESS.fullmatch(runbook))


def words(runbook: str) -> str:
    """Return the section that a runbook names, the whole page without one, or the name itself if it is no page here."""
    page, _, wanted = runbook.partition("#")
    try:
        found = project()
        root = (found.root if found else installation.top()).resolve()
        file = (root / page if found else installation.page(page)).resolve(strict=True)
        if file.suffix != ".md" or not file.is_relative_to(root):
            return runbook
        with file.open(encoding="utf-8") as opened:
            text = opened.read(LARGEST)
    except (OSError, ValueError):
        return runbook
    return _section(text, wanted) if wanted else text


def _section(text: str, wanted: str) -> str:
    """Return a section with its heading, found by the name that links have; the whole text if there is none."""
    begun: re.Match[str] | None = None
    bare = FENCED.sub(lambda code: " " * len(code[0]), text)
    for heading in HEADING.finditer(bare):
        if begun and len(heading[1]) <= len(begun[1]):
            return text[begun.start() : heading.start()].strip()
        if begun is None and _anchor(heading[2]) == wanted:
            begun = heading
    return text[begun.start() :].strip() if begun else text


def _anchor(heading: str) -> str:
    """Return the name under which a link finds a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


RAISED_AT = "raised_at"


def newest_alerts(lake: Lake, number: int) -> list[dict[str, Any]]:
    """Return the rows of the newest alerts, the newest first."""
    return newest_rows(lake.table(gold.TABLE), RAISED_AT, number)


def alert_found(
    lake: Lake, alert_id: str, day: date, rules: Mapping[str, Rule], now: datetime
) -> AlertFound | None:
    """Return an alert; None if gold does not have it.

    Args:
        lake: The lake.
        alert_id: Its id.
        day: The day of its event; an id is no order of time, and without a day every file would be read.
        rules: The rules by their ids.
        now: The current time.
    """
    begins = datetime.combine(day, time(), UTC)
    within = {gold.TABLE.event_at: (begins, begins + timedelta(days=1))}
    where = Where(equal={"alert_id": alert_id}, within=within, most=1)
    found = look(lake.table(gold.TABLE), where)
    return _shown(found[0].row, lake, rules, now) if found else None


def place_of(row: Mapping[str, Any]) -> str:
    """Return where in Kafka the event of an alert is."""
    return f"{row['event_topic']}/{row['event_partition']}/{row['event_offset']}"


def _shown(row: dict[str, Any], lake: Lake, rules: Mapping[str, Rule], now: datetime) -> AlertFound:
    rule = rules.get(row["rule_id"])
    place, at = place_of(row), row["event_at"]
    page = rule.runbook if rule and is_address(rule.runbook) else ""
    return AlertFound(
        lake=lake.root.name,
        alert_id=row["alert_id"],
        title=rule.title if rule else row["rule_id"],
        about=rule.about if rule else "",
        severity=row["rule_severity"],
        rule=row["rule_id"],
        version=row["rule_version"],
        file=rule.origin if rule else "no longer in the folder",
        tags=rule.tags if rule else (),
        table=row["event_table"],
        at=at.isoformat(),
        raised_at=row[RAISED_AT].isoformat(),
        key=json.loads(row["event_key"]),
        event=json.loads(row["event"]),
        place=place,
        where=_where(place, lake, now),
        runbook=words(rule.runbook) if rule and rule.runbook and not page else "",
        runbook_page=page,
        commands=(
            f"strandline why {place}",
            f"strandline rules explain --event {place}",
        ),
    )


def _where(place: str, lake: Lake, now: datetime) -> str:
    """Return what became of the event; a lake that cannot say it does not keep the alert from being shown."""
    try:
        return why(place, None, World(lake=lake, now=now, search=False)).sentence
    except LakeError as error:
        return error.message
