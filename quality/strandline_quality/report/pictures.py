"""The charts of a table, and their labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from strandline_quality.report.charts import Bar, bars, line, spark
from strandline_quality.report.findings import Failing, Findings, Flow, Hour, TableFindings
from strandline_quality.report.words import span

HOUR = timedelta(hours=1)
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
    steps, ends = _steps(whole)
    step = "hour" if steps[1] - steps[0] == HOUR else "day"
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
        kinds += [("--copy", "copies"), ("--bad", "held back")]
    if any(hour and hour.usual for hour in hours):
        kinds.append(("--usual", "usual"))
    return kinds


def _steps(whole: Findings) -> tuple[list[datetime], list[str]]:
    """Return the beginnings of the bars, and the labels below them."""
    since, until = (datetime.fromisoformat(each) for each in (whole.since, whole.until))
    is_short = (until - since) <= MOST_HOURS * HOUR
    step = HOUR if is_short else 24 * HOUR
    steps = [since + n * step for n in range(int((until - since) / step) + 1)]
    if until - since == 24 * HOUR:
        return steps, ["00:00", "06:00", "12:00", "18:00", "24:00"]
    last = until - 24 * HOUR
    return steps, [f"{since.day} {since:%b}", f"{last.day} {last:%b}"]


def _together(hours: Sequence[Hour], start: datetime, length: timedelta) -> Hour | None:
    own = [h for h in hours if start <= datetime.fromisoformat(h.at) < start + length]
    if not own:
        return None
    if length == HOUR:
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
    parts = (("good", flow.good), ("copy", flow.duplicates), ("held", flow.quarantined))
    return Bar(parts=parts, usual=hour.usual, label=label)
