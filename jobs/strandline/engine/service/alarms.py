"""Alarms of the lake itself, brought to people: to a Slack-compatible webhook, to PagerDuty, by e-mail, each with its runbook.

The conditions are those of infra/monitoring/alerts.yml, the file that Prometheus reads: its expressions are evaluated here, over
the figures of the last look at the lake, so who has no Prometheus gets the same alarms at the same time. What the language has
beyond these expressions is refused.

An alarm is one incident however many tables it is about: it is sent when its condition has held for as long as the file says,
again when it comes to be about another table, no more often than every quarter of an hour, and once when it is over. What was
sent to whom is a file of this machine, so a start says nothing twice and forgets no end. A receiver that is away is tried again
after pauses that double; after the last attempt the alarm is given up for it, and that is said.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from email.message import EmailMessage
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import yaml

from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.runtime.processes import own
from strandline.engine.runtime.webhook import mail, post
from strandline.engine.service.metrics import Metric, Sample
from strandline_infra import installation

RULES = "infra/monitoring/alerts.yml"
AGAIN = 900.0
"""Seconds between two messages about an alarm that goes on."""
PAUSES = (30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0)
"""Seconds before each further attempt to reach a receiver; after the last one it is given up."""
NAMED = 10
"""Instances that a message names; the others are counted."""
PATIENCE = 10.0

Labels: TypeAlias = tuple[tuple[str, str], ...]
Vector: TypeAlias = dict[Labels, float]

# The conditions: the part of Prometheus' language that the file uses.

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-z_]+)(?:\{(?P<labels>[^}]*)\})?|(?P<sign>==|>=|<=|[()<>*-]))"
)
LABEL = re.compile(r'(\w+)="([^"]*)"')
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": lambda a, b: a == b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
}


class _Expression:
    """An expression, evaluated as it is read: or, and, comparison, difference, product."""

    def __init__(self, text: str, figures: Mapping[str, Vector], now: float) -> None:
        """Split it into words."""
        self._figures, self._now, self._text = figures, now, text
        self._words: list[re.Match[str]] = []
        at = 0
        while at < len(text.rstrip()):
            found = TOKEN.match(text, at)
            if found is None:
                raise self._unknown(text[at:])
            self._words.append(found)
            at = found.end()

    def value(self) -> Vector:
        """Return what it is true of, and the values."""
        found = self._either()
        if self._words:
            raise self._unknown(self._words[0].group())
        return found if isinstance(found, dict) else {(): found}

    def _unknown(self, word: str) -> DefinitionError:
        return DefinitionError(
            f"an alarm's expression is not understood at {word.strip()!r}: {self._text}",
            hint=f"{RULES} may use or, and, comparisons, - and *, time() and absent(); Prometheus reads the rest of its language.",
        )

    def _is_next(self, *words: str) -> str | None:
        if self._words and self._words[0].group().strip() in words:
            return self._words.pop(0).group().strip()
        return None

    def _either(self) -> Vector | float:
        found = self._both()
        while self._is_next("or"):
            found = {**_vector(self._both()), **_vector(found)}
        return found

    def _both(self) -> Vector | float:
        found = self._compared()
        while self._is_next("and"):
            other = _vector(self._compared())
            found = {of: value for of, value in _vector(found).items() if of in other}
        return found

    def _compared(self) -> Vector | float:
        found = self._less()
        sign = self._is_next(*COMPARE)
        if sign is None:
            return found
        pairs = _paired(found, self._less())
        return {of: a for of, (a, b) in pairs.items() if COMPARE[sign](a, b)}

    def _less(self) -> Vector | float:
        found = self._product()
        while self._is_next("-"):
            found = {of: a - b for of, (a, b) in _paired(found, self._product()).items()}
        return found

    def _product(self) -> Vector | float:
        found = self._atom()
        while self._is_next("*"):
            found = {of: a * b for of, (a, b) in _paired(found, self._atom()).items()}
        return found

    def _atom(self) -> Vector | float:
        if not self._words:
            raise self._unknown("its end")
        word = self._words.pop(0)
        if word["number"]:
            return float(word["number"])
        if word["name"] in {"time", "absent"} and self._is_next("("):
            inside = None if word["name"] == "time" else _vector(self._atom())
            if not self._is_next(")"):
                raise self._unknown(word.group())
            if inside is None:
                return self._now
            return {} if inside else {(): 1.0}
        if not (word["name"] or "").startswith("strandline_"):
            raise self._unknown(word.group())
        wanted = {*LABEL.findall(word["labels"] or "")}
        series = self._figures.get(word["name"], {})
        return {of: value for of, value in series.items() if wanted <= {*of}}


def _vector(found: Vector | float) -> Vector:
    return found if isinstance(found, dict) else {(): found}


def _paired(left: Vector | float, right: Vector | float) -> dict[Labels, tuple[float, float]]:
    """Return the values of two sides that belong together: those with the same labels, or each with the one number."""
    match left, right:
        case dict(), dict():
            return {of: (left[of], right[of]) for of in left if of in right}
        case dict(), float():
            return {of: (value, right) for of, value in left.items()}
        case float(), dict():
            return {of: (left, value) for of, value in right.items()}
    assert isinstance(left, float)  # noqa: S101  # for mypy: of the kinds above, both are numbers here
    assert isinstance(right, float)  # noqa: S101  # as above
    return {(): (left, right)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A rule of the file.

    Args:
        name: Its name.
        expr: The expression.
        seconds: For how long it is to hold.
        severity: ``critical`` or ``warning``.
        summary: The sentence, with the labels that it names.
        runbook: The page, and its section.
    """

    name: str
    expr: str
    seconds: float
    severity: str
    summary: str
    runbook: str

    @property
    def metrics(self) -> set[str]:
        """Return the names of what its expression reads."""
        return {*re.findall(r"strandline_[a-z_]+", self.expr)}

    def holds(self, figures: Mapping[str, Vector], now: float) -> dict[str, str]:
        """Return what it is true of, each with its sentence."""
        return {
            json.dumps(of): self._said(dict(of), value)
            for of, value in _Expression(self.expr, figures, now).value().items()
        }

    def _said(self, labels: Mapping[str, str], value: float) -> str:
        text = self.summary.replace("{{ $value }}", f"{value:,.0f}")
        return re.sub(r"\{\{ ?\$labels\.(\w+) ?\}\}", lambda found: labels.get(found[1], ""), text)


def figures_of(samples: Iterable[Sample]) -> dict[str, Vector]:
    """Return the values of each metric by their labels."""
    found: dict[str, Vector] = {}
    for each in samples:
        of = tuple(sorted(zip(each.metric.labels, each.labels, strict=True)))
        found.setdefault(each.metric.name, {})[of] = each.value
    return found


UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0}


def conditions() -> list[Condition]:
    """Return the conditions of the file."""
    groups = yaml.safe_load(Place.of(installation.page(RULES)).text() or "")["groups"]
    return [
        Condition(
            name=each["alert"],
            expr=each["expr"],
            seconds=float(each["for"][:-1]) * UNITS[each["for"][-1]],
            severity=each["labels"]["severity"],
            summary=each["annotations"]["summary"],
            runbook=each["annotations"]["runbook"],
        )
        for group in groups
        for each in group["rules"]
    ]


# The receivers.


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a receiver gets.

    Args:
        key: The same for all messages about an incident, and no other's.
        name: Of the alarm.
        severity: As the file has it.
        is_over: Whether it is over.
        says: What it is about, each a sentence.
        since: The moment since which its condition holds.
        at: When it was sent.
        runbook: The address of the page, or its path where no address is known.
        lake: Where.
        host: Who says so.
    """

    key: str
    name: str
    severity: str
    is_over: bool
    says: Sequence[str]
    since: str
    at: str
    runbook: str
    lake: str
    host: str

    @property
    def title(self) -> str:
        """Return one line."""
        first = self.says[0] if self.says else self.name
        more = f" (and {len(self.says) - 1:,} more)" if len(self.says) > 1 else ""
        return f"{'RESOLVED' if self.is_over else self.severity.upper()}: {first}{more}"

    @property
    def lines(self) -> list[str]:
        """Return what it is about, no more than a person reads."""
        over = len(self.says) - NAMED
        return [*self.says[:NAMED], *([f"… and {over:,} more"] if over > 0 else [])]


class Receiver(Protocol):
    """Brings messages to people."""

    @property
    def shown(self) -> str:
        """Return what it is called in messages: without what is secret."""

    @property
    def id(self) -> str:
        """Return what the file of this machine calls it: as no other receiver, and without what is secret."""

    def send(self, message: Message) -> Exception | None:
        """Send a message; return why it was not accepted, and None where it was."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook of Slack, or of what takes the same (Mattermost, Rocket.Chat, Discord's /slack)."""

    address: str
    shown: str
    id: str

    def send(self, message: Message) -> Exception | None:
        """See ``Receiver``."""
        page = message.runbook
        linked = f"<{page}|runbook>" if "://" in page else f"runbook: {page}"
        said = "\n".join(f"• {_plain(each)}" for each in message.lines)
        sign = ":white_check_mark:" if message.is_over else ":rotating_light:"
        text = f"{sign} *{_plain(message.title)}*\n{said}\n{_plain(message.lake)} · since {message.since} · {linked}"
        return post(self.address, {"text": text}, patience=PATIENCE)


def _plain(text: str) -> str:
    """Return a text that Slack shows as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@dataclass(frozen=True, slots=True)
class PagerDuty:
    """PagerDuty's events, version 2, and what takes the same."""

    address: str
    key: str
    shown: str
    id: str

    def send(self, message: Message) -> Exception | None:
        """See ``Receiver``."""
        event: dict[str, object] = {
            "routing_key": self.key,
            "event_action": "resolve" if message.is_over else "trigger",
            "dedup_key": message.key,
        }
        if not message.is_over:
            event["payload"] = {
                "summary": message.title[:1024],
                "source": message.host,
                "severity": message.severity,
                "timestamp": message.since,
                "component": message.lake,
                "class": message.name,
                "custom_details": {"about": message.lines, "runbook": message.runbook},
            }
            event["client"] = "Strandline"
            if "://" in message.runbook:
                event["links"] = [{"href": message.runbook, "text": "runbook"}]
        return post(self.address, event, patience=PATIENCE)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail server."""

    address: str
    sender: str
    to: tuple[str, ...]
    shown: str
    id: str

    def send(self, message: Message) -> Exception | None:
        """See ``Receiver``."""
        try:
            return mail(self.address, self._written(message), patience=PATIENCE)
        except ValueError as error:  # of a header
            return error

    def _written(self, message: Message) -> EmailMessage:
        found = EmailMessage()
        found["Subject"] = message.title[:200]
        found["From"], found["To"] = self.sender, ", ".join(self.to)
        found["Auto-Submitted"] = "auto-generated"
        # Programs for mail show messages with one reference together, so the end is below the beginning.
        found["References"] = f"<{message.key}@strandline>"
        ends = f"over at {message.at}" if message.is_over else "it goes on"
        facts = f"alarm    {message.name}\nlake     {message.lake}\nhost     {message.host}\nsince    {message.since}; {ends}"
        found.set_content("\n".join([*message.lines, "", facts, f"runbook  {message.runbook}"]))
        return found


FORMS = (
    "slack+https://{HOST}/services/…, pagerduty+https://{KEY}@events.pagerduty.com/v2/enqueue, "
    "smtps://user:password@host:465?from=lake@example.org&to=on-call@example.org"
)


def receivers(words: str) -> list[Receiver]:
    """Return the receivers that a setting names, by their addresses with spaces between.

    Raises:
        DefinitionError: One is none; what it has is not repeated, it may be a secret.
    """
    return [_receiver(number, each) for number, each in enumerate(words.split(), 1)]


def _receiver(number: int, word: str) -> Receiver:
    parts = urlsplit("")
    try:
        parts = urlsplit(word)
        kind, _, scheme = parts.scheme.partition("+")
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        kind = scheme = host = port = ""
    if kind == "slack" and scheme in {"http", "https"} and host:
        address = urlunsplit((scheme, parts.netloc, parts.path, parts.query, ""))
        return Webhook(address, shown := f"slack at {host}{port}", _id(shown, address))
    if kind == "pagerduty" and scheme in {"http", "https"} and host and parts.username:
        address = urlunsplit((scheme, f"{host}{port}", parts.path or "/v2/enqueue", "", ""))
        shown = f"pagerduty at {host}{port}"
        return PagerDuty(address, key := unquote(parts.username), shown, _id(shown, address, key))
    if kind in {"smtp", "smtps"} and not scheme and host:
        asked = parse_qs(parts.query.replace("+", "%2B"))  # of ann+lake@… it is no space
        to = tuple(each for group in asked.get("to", []) for each in group.split(",") if each)
        if to and asked.get("from"):
            shown, sender = f"mail to {', '.join(to)}", asked["from"][0]
            # Without the password: it can be guessed from a sum, and a new one is no new receiver.
            return Mail(word, sender, to, shown, _id(shown, f"{host}{port}", sender))
    raise DefinitionError(
        f"address {number} of STRANDLINE_ALARMS is none of a receiver of alarms",
        hint=f"write addresses such as {FORMS}, with spaces between.",
    )


def _id(shown: str, *address: str) -> str:
    """Return the id of a receiver: of two channels of one host only the address differs, which is a secret."""
    return f"{shown} {hashlib.sha256(' '.join(address).encode()).hexdigest()[:12]}"


# What was sent, and what is to be.


@dataclass(slots=True, kw_only=True)
class Sent:
    """What a receiver knows of an incident.

    Args:
        about: What the last message that it accepted was about, less what is over since: if that comes again, it is news.
        ever: What all messages about the incident were about, for that of its end.
        at: When it accepted that, in seconds.
        tries: Attempts in a row that failed.
        due: When the next attempt is to be made.
    """

    about: list[str] = field(default_factory=list)
    ever: list[str] = field(default_factory=list)
    at: float = 0.0
    tries: int = 0
    due: float = 0.0

    def knows(self, about: list[str], at: float) -> "Sent":
        """Return what it knows after a message, or after one was given up."""
        return Sent(about=about, ever=sorted({*self.all, *about}), at=at)

    @property
    def all(self) -> list[str]:
        """Return what its messages were about; files of before have the last one alone."""
        return self.ever or self.about


@dataclass(slots=True, kw_only=True)
class Incident:
    """A condition that holds, or held.

    Args:
        since: The second since which each of what it is about holds.
        says: The sentence of each.
        sent: What each receiver knows, by its id.
    """

    since: dict[str, float] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    sent: dict[str, Sent] = field(default_factory=dict)


class Alarms:
    """Looks at the figures of a lake, and lets people know."""

    def __init__(  # noqa: PLR0913  # what is watched, by whom it is heard, and where its pages are
        self,
        lake: Lake,
        to: Sequence[Receiver],
        clock: Callable[[], datetime],
        says: Callable[[str], None],
        *,
        runbooks: str = "",
        rules: Sequence[Condition] | None = None,
    ) -> None:
        """Go on where the last process of this machine was.

        Args:
            lake: The lake.
            to: Who is to know.
            clock: Returns the time.
            says: Hears what cannot be sent.
            runbooks: The address below which the pages are.
            rules: The conditions; those of the file when absent.
        """
        self._lake, self._to, self._clock, self._says = lake, to, clock, says
        self._runbooks = runbooks
        self._rules = conditions() if rules is None else rules
        self._alone = ExitStack()
        self._is_alone = False
        self._was_held = self._is_read = False
        self._failures: set[str] = set()
        self._incidents: dict[str, Incident] = {}

    @property
    def _file(self) -> Place:
        return self._lake.near / "_raised_alarms.json"  # also while the store is away

    def look(self, samples: Sequence[Sample], unknown: Collection[Metric] = ()) -> None:
        """Take what a look at the lake has shown; whatever fails here is said once, and ends no page.

        Args:
            samples: What it has shown.
            unknown: What it could not read, and no look before; what has no sample of these is not over.
        """
        try:
            if self._holds():
                self._look(samples, {each.name for each in unknown})
        except Exception as error:  # noqa: BLE001  # Prometheus asks the same process
            self._failed("alarms cannot be raised", error)

    def _look(self, samples: Sequence[Sample], unknown: Collection[str]) -> None:
        now, figures = self._clock(), figures_of(samples)
        for rule in self._rules:
            incident = self._incidents.setdefault(rule.name, Incident())
            holds, at = rule.holds(figures, now.timestamp()), now.timestamp()
            # A clock that was ahead and was set back must not keep an alarm for as long.
            shown = {json.dumps(of) for each in rule.metrics for of in figures.get(each, {})}
            goes_on = {*incident.since} - shown if rule.metrics & {*unknown} else set()
            incident.since = {of: min(incident.since.get(of, at), at) for of in {*goes_on, *holds}}
            incident.says |= holds
        away: set[str] = set()
        for rule in self._rules:
            self._let_know(rule, self._incidents[rule.name], now, away)
        self._incidents = {
            name: each for name, each in self._incidents.items() if each.since or each.sent
        }
        self._store()

    def end(self) -> None:
        """Let another process send them."""
        self._alone.close()
        self._is_alone = self._is_read = False

    def _holds(self) -> bool:
        """Return whether this process is the one of this machine that sends."""
        if self._is_alone:
            return True
        lock = self._lake.near / "_raised_alarms.lock"
        try:
            self._alone.enter_context(hold(lock, json.dumps(own()), waits=False))
        except HeldError:
            if not self._was_held:
                self._says("another process of this machine sends the alarms of this lake")
            self._was_held, self._is_read = True, False
            return False
        except OSError as error:  # a full disk is to be said: twice rather than never
            self._failed("alarms are raised without a lock, so two processes may send each", error)
        else:
            self._is_alone = True
        if self._is_read:
            return True
        self._incidents, self._is_read = _read(self._file), True
        for incident in self._incidents.values():
            for receiver in self._to:  # a file of before has names; of several it is the first's
                if receiver.shown in incident.sent:
                    incident.sent[receiver.id] = incident.sent.pop(receiver.shown)
        return True

    def _let_know(self, rule: Condition, incident: Incident, now: datetime, away: set[str]) -> None:
        at = now.timestamp()
        about = sorted(each for each, since in incident.since.items() if at - since >= rule.seconds)
        for receiver in self._to:
            name = receiver.id
            known = incident.sent.get(name)
            if about:
                known = incident.sent.setdefault(name, Sent())
                known.ever = known.all
                known.about = [each for each in known.about if each in incident.since]
            if known is not None and not about and not known.all:  # over before it was accepted
                del incident.sent[name]
                continue
            if known is None or name in away or 0 < known.due - at <= PAUSES[-1]:
                continue
            if not _is_news(known, about, at):
                continue
            message = self._message(rule, incident, about or known.all, now, is_over=not about)
            self._try(receiver, message, incident, about, at, away)
        gone = {each for each in incident.says if each not in incident.since}
        kept = {each for known in incident.sent.values() for each in known.all}
        for each in gone - kept:
            del incident.says[each]

    def _try(  # noqa: PLR0913, PLR0917  # who gets what about which incident
        self,
        receiver: Receiver,
        message: Message,
        incident: Incident,
        about: list[str],
        at: float,
        away: set[str],
    ) -> None:
        name, shown, known = receiver.id, receiver.shown, incident.sent[receiver.id]
        try:
            error = receiver.send(message)
        except Exception as failure:  # noqa: BLE001  # whatever one of them does, the others get it
            error = failure
        if error is None and not about:
            del incident.sent[name]
            return
        if error is None:
            incident.sent[name] = known.knows(about, at)
            return
        away.add(name)  # each further message would wait for it as long
        known.tries += 1
        if known.tries <= len(PAUSES):
            known.due = at + PAUSES[known.tries - 1]
            if known.tries == 1:
                self._says(
                    f"{shown} did not accept {message.name}: {_reason(error)}; it is tried again"
                )
            return
        self._says(f"{shown} did not accept {message.name} {known.tries} times: it is given up")
        if about:
            incident.sent[name] = known.knows(about, at)
        else:
            del incident.sent[name]

    def _message(
        self,
        rule: Condition,
        incident: Incident,
        about: Sequence[str],
        now: datetime,
        *,
        is_over: bool,
    ) -> Message:
        begun = [incident.since[each] for each in about if each in incident.since]
        since = min(begun) if begun else min(each.at for each in incident.sent.values())
        base = self._runbooks
        return Message(
            key=hashlib.sha256(f"{self._lake.root}\n{rule.name}".encode()).hexdigest()[:32],
            name=rule.name,
            severity=rule.severity,
            is_over=is_over,
            says=sorted({incident.says.get(each, rule.name) for each in about}),
            since=datetime.fromtimestamp(since, now.tzinfo).isoformat(timespec="seconds"),
            at=now.isoformat(timespec="seconds"),
            runbook=f"{base.rstrip('/')}/{rule.runbook}" if base else rule.runbook,
            lake=str(self._lake.root),
            host=str(own()["host"]),
        )

    def _store(self) -> None:
        found = {name: asdict(each) for name, each in self._incidents.items()}
        text = json.dumps(found, sort_keys=True)
        try:
            if text != (self._file.text() or "{}"):
                self._file.put(text)
            if self._is_alone:
                self._failures.clear()
        except OSError as error:
            self._failed("a start would send alarms once more, what was sent is not stored", error)

    def _failed(self, what: str, error: Exception) -> None:
        said = f"{what}: {getattr(error, 'strerror', None) or _reason(error)}"
        if said not in self._failures:
            self._failures.add(said)
            with suppress(OSError):  # the log may be on the disk that is full
                self._says(said)


def _is_news(known: Sent, about: Sequence[str], at: float) -> bool:
    """Return whether a receiver does not know something, and may be sent it now."""
    is_more = bool({*about} - {*known.about})
    return not about or (is_more and not 0 <= at - known.at < AGAIN)


def _reason(error: Exception) -> str:
    """Return the kind of an error: its text may have the address, which is a secret."""
    code = getattr(error, "code", None) or getattr(error, "smtp_code", None)
    return f"{type(error).__name__}{f' {code}' if code else ''}"


def _read(file: Place) -> dict[str, Incident]:
    """Return what was stored; nothing from a file that is torn, so that the alarms are sent once more."""
    try:
        found: dict[str, dict[str, Any]] = json.loads(file.text() or "{}")
        return {
            name: Incident(
                since=each["since"],
                says=each["says"],
                sent={of: Sent(**known) for of, known in each["sent"].items()},
            )
            for name, each in found.items()
        }
    except (OSError, ValueError, TypeError, KeyError):
        return {}
