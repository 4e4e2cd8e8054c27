"""The findings of one table, as a section of the page."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from quality.report.charts import Bar, bars, line, meter, spark
from quality.report.findings import Failing, Findings, Flow, Hour, Sample, TableFindings
from quality.report.parts import Column, badge, listed, table
from quality.report.words import ago, attribute, count, day, moment, name, share, span, text

HOUR = timedelta(hours=1)
MOST_HOURS = 96
"""For a longer range the charts show days."""


def section(findings: TableFindings, whole: Findings) -> str:
    """Return a table's section."""
    parts = [
        f'<article class="table" id="{attribute(findings.table)}">',
        f'<div class="top"><h3>{name(findings.table)}</h3>{badge(findings.verdict)}</div>',
        f'<p class="about">{_about(findings, whole)}</p>',
        listed(findings.because, 6),
        _gate(findings),
        _pictures(findings, whole),
        '<div class="pair">',
        _failing(findings, whole),
        _reasons(findings),
        "</div>",
        _samples(findings.samples),
        "</article>",
    ]
    return "".join(parts)


def _about(findings: TableFindings, whole: Findings) -> str:
    sentences = [f"{text(findings.about.rstrip('.'))}."]
    if findings.owner:
        sentences.append(f"Owner: {text(findings.owner)}.")
    if findings.newest_at:
        sentences.append(
            f"Last commit {moment(findings.newest_at)}, {ago(findings.newest_at, whole.made_at)}."
        )
    return " ".join(sentences)


def _gate(findings: TableFindings) -> str:
    if findings.gate is None:
        return ""
    return (
        f'<p class="bad">The gate is shut since {moment(findings.gate.since)}: '
        f"{text(findings.gate.why)}</p>"
    )


def _pictures(findings: TableFindings, whole: Findings) -> str:
    steps, names = _steps(whole)
    hours = [_together(findings.hours, step, steps[1] - steps[0]) for step in steps[:-1]]
    top = max((hour.flow.read for hour in hours if hour), default=0)
    ends = (
        f'<p class="axis" aria-hidden="true">{"".join(f"<span>{end}</span>" for end in names)}</p>'
    )
    what = "hour" if steps[1] - steps[0] == HOUR else "day"
    volume = bars([_bar(hour) if hour else None for hour in hours], f"rows read each {what}")
    figures = [
        (
            f"<figure><figcaption><b>Rows read each {what}</b><span>most {count(top)}</span>"
            f"</figcaption>{volume}{ends}{_key(findings, hours)}</figure>"
        )
    ]
    late = [hour.freshness_s if hour else None for hour in hours]
    known = [each for each in late if each is not None]
    if known:
        titles = [
            f"{hour.at[:16]}: {span(hour.freshness_s or 0)}" if hour else "" for hour in hours
        ]
        figures.append(
            f"<figure><figcaption><b>From event to table</b><span>longest {span(max(known))}</span>"
            f"</figcaption>{line(late, f'delay each {what}', titles)}{ends}</figure>"
        )
    return f'<div class="charts">{"".join(figures)}</div>'


def _key(findings: TableFindings, hours: Sequence[Hour | None]) -> str:
    kinds = [("--bar", "good")]
    if findings.judges:
        kinds += [("--copy", "copies"), ("--bad", "held back")]
    if any(hour and hour.usual for hour in hours):
        kinds.append(("--usual", "usual"))
    marks = "".join(f'<span style="--c:var({colour})">{kind}</span>' for colour, kind in kinds)
    return f'<p class="key">{marks}</p>'


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


def _failing(findings: TableFindings, whole: Findings) -> str:
    if not findings.failing:
        return ""
    last = day(findings.days[-1].day)
    columns = (
        Column("rule"),
        Column("rows", "n"),
        Column("of those read", "n"),
        Column(f"{len(findings.days)} days to {last}"),
    )
    rows = [_broken(each, whole) for each in findings.failing]
    caption = "Each row counts under every rule that it breaks, where the ledger says so."
    return f"<div><h4>Rules that rows broke</h4>{table(caption, columns, rows)}</div>"


def _broken(each: Failing, whole: Findings) -> tuple[str, ...]:
    label = f"trend of {each.rule} up to {whole.until[:10]}: " + ", ".join(
        "nothing read" if value is None else f"{value:.2%}" for value in each.trend
    )
    return name(each.rule), count(each.rows), share(each.share), spark(each.trend, label)


def _reasons(findings: TableFindings) -> str:
    if not findings.reasons:
        return ""
    columns = (Column("reason"), Column("rows", "n"), Column("share of those", "n"), Column("", ""))
    rows = [
        (name(each.reason), count(each.rows), share(each.share), meter(each.share))
        for each in findings.reasons[:8]
    ]
    caption = "Each row under its first reason, as in the ledger."
    return f"<div><h4>Why rows were held back</h4>{table(caption, columns, rows)}</div>"


def _samples(samples: Sequence[Sample]) -> str:
    if not samples:
        return ""
    shown = "".join(_sample(each) for each in samples)
    return (
        f"<h4>{len(samples)} of the rows held back</h4>"
        '<p class="small about">The newest of each reason. Sensitive fields are masked.</p>'
        f'<ul class="samples">{shown}</ul>'
    )


def _sample(sample: Sample) -> str:
    place = f"{text(sample.topic)}/{sample.partition} at offset {sample.offset:,}"
    return (
        f'<li class="sample"><p><b>{" + ".join(map(text, sample.reasons))}</b>'
        f"<span>{place}</span><span>arrived {moment(sample.arrived_at)}</span></p>"
        f"<pre>{text(sample.payload)}</pre></li>"
    )
