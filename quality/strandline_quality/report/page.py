"""The page: one self-contained file, which also holds the findings as JSON for programs.

It is read on a telephone at night, printed for an auditor, and mailed; so it has no outside asset, no script, and a
policy that lets no script run, whatever a payload may hold.

The page is a template of Jinja2 (page.html), which reads as the page that it makes. Whatever a template writes becomes
text by words.py, which is stricter than Jinja's own escaping; only what these modules made as HTML passes as it is.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from strandline_quality.report import charts
from strandline_quality.report.backtest import Backtest, Change, RuleFigures
from strandline_quality.report.charts import Bar, bars, count, day
from strandline_quality.report.findings import MEANING, Findings, Flow, Verdict

TONE = {
    Verdict.SILENT: "none",
    Verdict.BELIEVED: "good",
    Verdict.WARNED: "warn",
    Verdict.STALE: "bad",
    Verdict.HELD: "bad",
    Verdict.UNPROVEN: "bad",
    Verdict.UNBALANCED: "bad",
}
SIGNS = {
    Verdict.SILENT: '<circle cx="12" cy="12" r="2"/>',
    Verdict.BELIEVED: '<path class="s" d="m7 12.5 3.4 3.4L17 9"/>',
    Verdict.WARNED: '<path class="s" d="M12 7v6"/><circle cx="12" cy="16.7" r="1.3"/>',
    Verdict.STALE: '<path class="s" d="M12 7.5V12l3 2.2"/>',
    Verdict.HELD: '<path class="s" d="M9.5 8.5v7M14.5 8.5v7"/>',
    Verdict.UNPROVEN: '<path class="s" d="M8 8l8 8M16 8l-8 8"/>',
    Verdict.UNBALANCED: '<path class="s" d="M7.5 10h9M7.5 14h9M14.5 7l-5 10"/>',
}
"""Signs drawn on a disc, so no verdict is shown by colour alone."""


def tone(verdict: Verdict) -> str:
    """Return the class of a verdict's colour."""
    return TONE[verdict]


def symbol(verdict: Verdict) -> str:
    """Return the name by which the page uses a verdict's sign."""
    return f"v-{verdict.name.lower()}"


HERE = Path(__file__).parent
POLICY = Markup(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)

HTML: tuple[Callable[..., str], ...] = (
    *(
        charts.ago,
        charts.attribute,
        charts.count,
        charts.day,
        charts.moment,
        charts.name,
        charts.share,
    ),
    *(charts.span, charts.meter, charts.trend, symbol, tone),
)
"""The functions whose results are HTML, by whose names the templates call them."""


def page(findings: Findings) -> str:
    """Return the report as one HTML file."""
    active = [
        each
        for each in findings.tables
        if each.flow != Flow() or each.because or each.gate or each.drift
    ]
    return (
        environment()
        .get_template("page.html")
        .render(
            findings=findings,
            active=[(each, charts.pictures(each, findings)) for each in active],
            silent=[each.table for each in findings.tables if each not in active],
            data=data(findings.as_json()),
        )
    )


@cache
def environment() -> Environment:
    """Return Jinja with what the pages share."""
    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        finalize=_as_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({each.__name__: _as_html(each) for each in HTML})
    made.globals.update(
        filled=_filled,
        meanings=MEANING,
        policy=POLICY,
        signs={verdict: Markup(sign) for verdict, sign in SIGNS.items()},  # noqa: S704  # our own
        silent_sign=Verdict.SILENT,
        style=Markup((HERE / "style.css").read_text()),  # noqa: S704  # our own
    )
    return made


def _as_text(value: object) -> Markup:
    """Return what a template writes: HTML as it is, and all else as text."""
    return value if isinstance(value, Markup) else Markup(charts.text(value))  # noqa: S704  # escaped


def _as_html(function: Callable[..., str]) -> Callable[..., Markup]:
    return lambda *values: Markup(function(*values))  # noqa: S704  # these functions escape what they are given


def _filled(rules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the columns in which some rule has something."""
    return [name for name in rules[0] if any(rule[name] for rule in rules)]


def data(found: Mapping[str, Any]) -> Markup:
    """Return findings as JSON, in which no text can end the script element."""
    written = json.dumps(found, separators=(",", ":"))
    for odd in "<>&":
        written = written.replace(odd, f"\\u{ord(odd):04x}")
    return Markup(written)  # noqa: S704  # escaped above


# The page of one alert: the event, where it is, what to do, and the commands that show more; made as the report is.


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFound:
    """An alert with what a person needs to judge it. Sensitive columns are masked in ``key`` and ``event``.

    Args:
        lake: The name of the lake.
        alert_id: Its id.
        title: The title of its rule; the rule's id where no such rule is there any more.
        about: More than the title.
        severity: How bad it is.
        rule: The rule's id.
        version: The rule's version.
        file: Where the rule is declared.
        tags: The rule's tags.
        table: The table of the event.
        at: The time of the event.
        raised_at: When the alert came to its topic.
        key: The key of the event.
        event: The event.
        place: Where in Kafka the event is.
        where: What ``strandline why`` says of it.
        runbook: What to do, in words.
        runbook_page: The page with what to do, if it is one of the web.
        commands: What shows more.
    """

    lake: str
    alert_id: str
    title: str
    about: str
    severity: str
    rule: str
    version: str
    file: str
    tags: tuple[str, ...]
    table: str
    at: str
    raised_at: str
    key: Mapping[str, Any]
    event: Mapping[str, Any]
    place: str
    where: str
    runbook: str
    runbook_page: str
    commands: tuple[str, ...]


def alert_page(found: AlertFound) -> str:
    """Return an alert as one HTML file."""
    heading, _, words = found.runbook.partition("\n")
    return (
        environment()
        .get_template("alert.html")
        .render(
            found=found,
            tone={"critical": "bad", "high": "bad", "medium": "warn"}.get(found.severity, "none"),
            event=[(name, _text(value)) for name, value in found.event.items()],
            key=", ".join(_text(value) for value in found.key.values()),
            where=found.where[:1].upper() + found.where[1:],
            heading=heading.lstrip("# ") if heading.startswith("#") else "",
            runbook=words.strip() if heading.startswith("#") else found.runbook,
            data=data(asdict(found)),
        )
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# The page of a backtest: what each rule would have raised, day by day, as a picture; one file that needs nothing else.
#
# It is made as the daily report is: the same style, no script that runs, the findings inside as
# JSON.


CHANGE_MEANING = {
    Change.ADDED: "only the new version raises it",
    Change.GONE: "only the old version raised it",
    Change.MOVED: "both raise it, on the same event, with the version in its id",
}

SHOWN = 200
"""Rules that have a section of their own; the table above has all of them."""


def backtest_page(found: Backtest) -> str:
    """Return a backtest as one HTML file."""
    loud = sorted((rule for rule in found.rules if rule.alerts), key=lambda rule: -rule.alerts)
    quiet = [rule for rule in found.rules if not rule.alerts]
    changed = [rule for rule in found.rules if rule.compared and any(rule.compared.counts.values())]
    shown = [*loud, *(rule for rule in changed if rule not in loud)][:SHOWN]
    return (
        environment()
        .get_template("backtest.html")
        .render(
            found=found,
            sentence=sentence(found),
            loud=loud,
            quiet=quiet,
            changed=changed,
            charts=[(rule, volume(rule, found)) for rule in shown],
            ends=[day(each) for each in dict.fromkeys((found.days[0], found.days[-1]))],
            changes=list(Change),
            change_meanings=CHANGE_MEANING,
            data=data(found.as_json()),
        )
    )


def sentence(found: Backtest) -> str:
    """Return the result in one sentence."""
    fired = len(found.rules) - found.silent
    return (
        f"{fired:,} of {len(found.rules):,} rules would have raised "
        f"{found.alerts:,} alerts on {found.events:,} events."
    )


def volume(rule: RuleFigures, found: Backtest) -> Markup:
    """Draw the alerts of each day."""
    drawn = [
        Bar(parts=(("good", alerts),), usual=None, label=f"{on}: {count(alerts)} alerts")
        for on, alerts in zip(found.days, rule.days, strict=True)
    ]
    return Markup(bars(drawn, f"alerts of {rule.title} each day"))  # noqa: S704  # the chart escapes
