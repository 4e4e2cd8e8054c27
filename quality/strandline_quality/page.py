"""The page: one self-contained file, which also holds the findings as JSON for programs.

It is read on a telephone at night, printed for an auditor, and mailed; so it has no outside asset, no script, and a
policy that lets no script run, whatever a payload may hold.

The page is a template of Jinja2 (page.html), which reads as the page that it makes. Whatever a template writes becomes
text by words.py, which is stricter than Jinja's own escaping; only what these modules made as HTML passes as it is.
"""

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from strandline_quality.findings import (
    MEANING,
    Backtest,
    Change,
    Failing,
    Findings,
    Flow,
    Hour,
    RuleFigures,
    TableFindings,
    Verdict,
)

# Small charts in SVG: shapes only, stretched to the room there is.
#
# They hold no words, because a chart that shrinks to a telephone would shrink its words as well; the
# page writes them beside the chart, and gives screen readers the same text.


# How values become text in the page: numbers as people read them, and data as text only.
#
# A payload may hold mark-up, and characters that turn the direction of writing or take no room. Mark-up is escaped; such
# characters are written as code points, because a reader must see them and the page must not obey them.


UNSEEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
"""Categories of characters that are written as code points: control, direction, no width, half of a pair, unassigned."""

MINUTE, HOUR, DAY = 60, 3_600, 86_400
FEW = 0.0001


def text(value: object) -> str:
    """Return a value from data, or from a person, as HTML text."""
    return "".join(_sign(sign) for sign in str(value))


def _sign(sign: str) -> str:
    if unicodedata.category(sign) in UNSEEN and sign not in "\n\t":
        return f'<span class="odd">U+{ord(sign):04X}</span>'
    return escape(sign, quote=True)


def name(value: object) -> str:
    """Return the name of a table or a rule, with possible line breaks after dots, colons and underscores."""
    parts = text(value)
    for end in ".:_":
        parts = parts.replace(end, f"{end}<wbr>")
    return parts


def attribute(value: object) -> str:
    """Return a value as text of an HTML attribute."""
    unseen = (unicodedata.category(sign) in UNSEEN for sign in str(value))
    return escape(
        "".join(f"U+{ord(s):04X}" if odd else s for s, odd in zip(str(value), unseen, strict=True))
    )


def count(value: float) -> str:
    """Write a count."""
    return f"{value:,.0f}"


def share(value: float) -> str:
    """Write a share; only zero is written as 0 %, and only one as 100 %."""
    if 0 < value < FEW:
        return "&lt;0.01 %"
    if 1 - FEW < value < 1:
        return "&gt;99.99 %"
    return f"{value * 100:.2f} %" if 0 < value < 1 else f"{value * 100:.0f} %"


def span(seconds: float) -> str:
    """Write a length of time in the unit that fits."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if abs(seconds) >= unit * (2 if unit == DAY else 1):
            return f"{seconds / unit:,.1f} {name}".replace(".0 ", " ")
    return f"{seconds:,.0f} s"


def moment(iso: str) -> str:
    """Write a moment, in UTC."""
    at = datetime.fromisoformat(iso)
    return f'<time datetime="{attribute(iso)}">{at.day} {at:%b %Y, %H:%M}</time>'


def day(iso: str) -> str:
    """Write a day."""
    at = datetime.fromisoformat(iso)
    return f"{at.day} {at:%B}"


def ago(iso: str, now: str) -> str:
    """Write how long before the report a moment was."""
    passed = (datetime.fromisoformat(now) - datetime.fromisoformat(iso)).total_seconds()
    return f"{span(passed)} ago" if passed >= 1 else "just now"


WIDTH, HEIGHT = 1000, 100
GAP = 0.22
"""The share of a bar's room that is left empty."""

SHORT = 1.25
"""A chart reaches this many times the lower bound of what is usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar: the rows of one step of time.

    Args:
        parts: The kinds with their sizes, from the bottom up.
        usual: The bounds of what is usual.
        label: The text that is shown when a pointer is over it.
    """

    parts: tuple[tuple[str, float], ...]
    usual: tuple[float, float] | None
    label: str

    @property
    def top(self) -> float:
        """Return its height."""
        return sum(max(size, 0.0) for _, size in self.parts)

    @property
    def reach(self) -> float:
        """Return the height that it needs, so that a reader sees how far it is below what is usual."""
        return max(self.top, self.usual[0] * SHORT) if self.usual else self.top


def bars(series: Sequence[Bar | None], label: str) -> str:
    """Draw bars side by side, behind them what is usual; None leaves a gap."""
    highest = max((bar.reach for bar in series if bar), default=0.0) or 1.0
    room = WIDTH / max(len(series), 1)
    shapes = []
    for place, bar in enumerate(series):
        if bar is None:
            continue
        left, wide = place * room, room
        if bar.usual:
            low, high = (min(each / highest, 1.0) * HEIGHT for each in bar.usual)
            shapes.append(_rect("usual", left, HEIGHT - high, wide, high - low))
        pile = "".join(_pile(bar, left + wide * GAP / 2, wide * (1 - GAP), highest))
        shapes.append(f"<g><title>{attribute(bar.label)}</title>{pile}</g>")
    return _svg("".join(shapes), label)


def line(series: Sequence[float | None], label: str, titles: Sequence[str]) -> str:
    """Draw a value over time; the line has a gap where there is none."""
    highest = max((value for value in series if value is not None), default=0.0) or 1.0
    room = WIDTH / max(len(series), 1)
    dots, runs, run = [], [], list[str]()
    for place, value in enumerate(series):
        if value is None:
            runs.append(run)
            run = []
            continue
        x, y = (place + 0.5) * room, HEIGHT - max(value, 0.0) / highest * (HEIGHT - 6) - 3
        run.append(f"{x:.1f},{y:.1f}")
        # A line of no length with a round end is a dot that keeps its shape however the chart is stretched.
        dots.append(
            f'<g><title>{attribute(titles[place])}</title><path class="dot" d="M{x:.1f} {y:.1f}h0.01"/></g>'
        )
    paths = "".join(f'<polyline points="{" ".join(each)}"/>' for each in (*runs, run) if each)
    return _svg(paths + "".join(dots), label)


def spark(values: Sequence[float | None], label: str) -> str:
    """Draw a trend as small as a word; the last value has a dot, and unknown values are left out."""
    highest = max((value for value in values if value is not None), default=0.0) or 1.0
    step = 92 / max(len(values) - 1, 1)
    places = [
        (4 + n * step, 21 - max(value, 0.0) / highest * 18)
        for n, value in enumerate(values)
        if value is not None
    ]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dot = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in places[-1:])
    return (
        f'<svg class="spark" viewBox="0 0 100 24" width="100" height="24" role="img" '
        f'aria-label="{attribute(label)}"><path class="ground" d="M4 21.5h92"/>'
        f'<polyline points="{points}"/>{dot}</svg>'
    )


def meter(part: float, kind: str = "held") -> str:
    """Draw a share as a bar; the page shows the number beside it."""
    return (
        f'<svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="ground" width="100" height="6"/>'
        f'<rect class="{kind}" width="{min(max(part, 0.0), 1.0) * 100:.2f}" height="6"/></svg>'
    )


def _pile(bar: Bar, left: float, wide: float, highest: float) -> Sequence[str]:
    made, ground = [], float(HEIGHT)
    for kind, size in bar.parts:
        if size > 0:
            tall = max(size / highest * HEIGHT, 1.0)  # a small part must be visible
            ground -= tall
            made.append(_rect(kind, left, ground, wide, tall))
    return made


def _rect(kind: str, left: float, top: float, wide: float, tall: float) -> str:
    return f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'


def _svg(shapes: str, label: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{attribute(label)}">{shapes}</svg>'
    )


# The charts of a table, and their labels.


ONE_HOUR = timedelta(hours=1)
MOST_HOURS = 96
"""For a longer range the charts show days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pictures:
    """The charts of a table.

    Args:
        step: What a bar shows: an hour or a day.
        ends: The labels below the bars.
        volume: The rows read in each step.
        most: The largest number of them.
        key: The colours of the bars, and what each means.
        delay: The longest time from an event to the table in each step; None when it is not known.
        longest: The longest of all, in seconds.
    """

    step: str
    ends: Sequence[str]
    volume: Markup
    most: int
    key: Sequence[tuple[str, str]]
    delay: Markup | None
    longest: float


def pictures(findings: TableFindings, whole: Findings) -> Pictures:
    """Draw the charts of a table."""
    steps, ends = _steps(findings.own_day or (whole.since, whole.until))
    step = "hour" if steps[1] - steps[0] == ONE_HOUR else "day"
    hours = [_together(findings.hours, start, steps[1] - steps[0]) for start in steps[:-1]]
    volume = bars([_bar(hour) if hour else None for hour in hours], f"rows read each {step}")
    late = [hour.freshness_s if hour else None for hour in hours]
    titles = [f"{hour.at[:16]}: {span(hour.freshness_s or 0)}" if hour else "" for hour in hours]
    known = [each for each in late if each is not None]
    delay = line(late, f"delay each {step}", titles) if known else None
    return Pictures(
        step=step,
        ends=ends,
        volume=Markup(volume),  # noqa: S704  # the charts escape what they are given
        most=max((hour.flow.read for hour in hours if hour), default=0),
        key=_key(findings, hours),
        delay=None if delay is None else Markup(delay),  # noqa: S704  # as above
        longest=max(known, default=0.0),
    )


def trend(failing: Failing, whole: Findings) -> str:
    """Draw how often a rule was broken on each day up to the last one."""
    label = f"trend of {failing.rule} up to {whole.until[:10]}: " + ", ".join(
        "nothing read" if value is None else f"{value:.2%}" for value in failing.trend
    )
    return spark(failing.trend, label)


def _key(findings: TableFindings, hours: Sequence[Hour | None]) -> list[tuple[str, str]]:
    kinds = [("--bar", "good")]
    if findings.judges:
        kinds += [] if findings.sheet.keeps_copies else [("--copy", "copies")]
        kinds.append(("--bad", "held back"))
        kinds += [("--line", "passed over")] if findings.sheet.flow.skipped else []
    if any(hour and hour.usual for hour in hours):
        kinds.append(("--usual", "usual"))
    return kinds


def _steps(ends: tuple[str, str]) -> tuple[list[datetime], list[str]]:
    """Return the beginnings of the bars, the end of the last, and the labels below them."""
    since, until = map(datetime.fromisoformat, ends)
    is_short = (until - since) <= MOST_HOURS * ONE_HOUR
    step = ONE_HOUR if is_short else 24 * ONE_HOUR
    steps = [since + n * step for n in range(int((until - since) / step) + 1)]
    if steps[-1] < until:  # clocks changed, so it is no number of whole days
        steps.append(until)
    if since.hour or since.minute or until.hour or until.minute:
        return steps, [f"{since:%-d %b %H:%M}", f"{until:%-d %b %H:%M}"]
    if until - since == 24 * ONE_HOUR:
        return steps, ["00:00", "06:00", "12:00", "18:00", "24:00"]
    last = until - 24 * ONE_HOUR
    return steps, [f"{since.day} {since:%b}", f"{last.day} {last:%b}"]


def _together(hours: Sequence[Hour], start: datetime, length: timedelta) -> Hour | None:
    own = [h for h in hours if start <= datetime.fromisoformat(h.at) < start + length]
    if not own:
        return None
    if length == ONE_HOUR:
        return own[0]
    late = [hour.freshness_s for hour in own if hour.freshness_s is not None]
    return Hour(
        at=start.isoformat(),
        flow=sum((hour.flow for hour in own), Flow()),
        freshness_s=max(late, default=None),
        usual=None,
    )


def _bar(hour: Hour) -> Bar:
    flow = hour.flow
    label = f"{hour.at[:16]}: {flow.read:,} rows, {flow.quarantined:,} held back"
    if hour.usual:
        label += f"; usually {hour.usual[0]:,.0f} to {hour.usual[1]:,.0f}"
    parts = (
        ("good", flow.good),
        ("copy", flow.duplicates),
        ("held", flow.quarantined),
        ("skip", flow.skipped),
    )
    return Bar(parts=parts, usual=hour.usual, label=label)


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


HERE = Path(__file__).with_name("report")
POLICY = Markup(
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)

HTML: tuple[Callable[..., str], ...] = (
    *(
        ago,
        attribute,
        count,
        day,
        moment,
        name,
        share,
    ),
    *(span, meter, trend, symbol, tone),
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
            active=[(each, pictures(each, findings)) for each in active],
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
    return value if isinstance(value, Markup) else Markup(text(value))  # noqa: S704  # escaped


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
