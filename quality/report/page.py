"""The page: one self-contained file, which also holds the findings as JSON for programs.

It is read on a telephone at night, printed for an auditor, and mailed; so it has no outside asset, no script, and a
policy that lets no script run, whatever a payload may hold.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from quality.report.detail import section
from quality.report.findings import MEANING, Findings, Flow, TableFindings
from quality.report.parts import Column, badge, listed, sign, symbols, table
from quality.report.words import ago, attribute, count, day, moment, name, share, text

STYLE = Path(__file__).with_name("style.css")
ABSENT = "&ndash;"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(findings: Findings) -> str:
    """Return the report as one HTML file."""
    title = attribute(f"{findings.sentence} Data quality of {findings.lake}")
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">',
        f"<title>{title}</title><style>{STYLE.read_text()}</style></head><body>{symbols()}",
        _top(findings),
        "<main>",
        _overview(findings),
        _sheets(findings.tables),
        _tables(findings),
        _quarantine(findings),
        _proofs(findings),
        _rules(findings.tables),
        _legend(),
        "</main>",
        _foot(findings),
        _data(findings),
        "</body></html>\n",
    ]
    return "".join(parts)


def _top(findings: Findings) -> str:
    flow = findings.judged
    figures = (
        ("Arrived", count(findings.arrived), "records"),
        (
            "Believed",
            share(flow.good / flow.read) if flow.read else ABSENT,
            f"{count(flow.good)} rows",
        ),
        ("Copies", count(flow.duplicates), _of(flow.duplicates, flow.read)),
        ("Held back", count(flow.quarantined), _of(flow.quarantined, flow.read)),
        ("Tables to trust", _trusted(findings.tables), f"of {count(len(findings.tables))}"),
    )
    listing = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd><dd>{more}</dd></div>"
        for name, value, more in figures
    )
    return (
        f'<header><p class="eyebrow"><span>Data quality of <b>{text(findings.lake)}</b></span>'
        f"<span>made {moment(findings.made_at)} UTC</span></p>"
        f'<div class="verdict">{sign(findings.verdict)}<div><h1>{text(findings.sentence)}</h1></div>'
        f'</div>{listed(findings.because, 5, " below")}<dl class="figures">{listing}</dl></header>'
    )


def _of(part: int, whole: int) -> str:
    return f"{share(part / whole)} of those judged" if whole else "nothing was judged"


def _trusted(tables: Sequence[TableFindings]) -> str:
    return count(sum(each.verdict.is_trusted for each in tables))


def _overview(findings: Findings) -> str:
    days = len(findings.tables[0].days) if findings.tables else 0
    columns = (
        Column("table"),
        Column("verdict"),
        Column(f"{days} days"),
        Column("read", "n"),
        Column("good", "n"),
        Column("held back", "n"),
        Column("last commit", "n"),
    )
    rows = [_line(each, findings) for each in findings.tables]
    caption = (
        "What was written in these days, in the order in which data flows; the newest day is last."
    )
    return f"<section><h2>Table by table</h2>{table(caption, columns, rows)}</section>"


def _line(each: TableFindings, findings: Findings) -> tuple[str, ...]:
    flow = each.flow
    return (
        f'<a href="#{attribute(each.table)}">{name(each.table)}</a>',
        badge(each.verdict),
        _strip(each),
        count(flow.read),
        share(flow.good / flow.read) if flow.read else ABSENT,
        count(flow.quarantined) if each.judges else "",
        ago(each.newest_at, findings.made_at) if each.newest_at else "never",
    )


def _strip(each: TableFindings) -> str:
    cells = "".join(
        f'<li title="{day(one.day)}: {attribute(one.verdict)}">{sign(one.verdict)}'
        f'<span class="hidden">{day(one.day)}: {text(one.verdict)}</span></li>'
        for one in each.days
    )
    return f'<ol class="days">{cells}</ol>'


def _sheets(tables: Sequence[TableFindings]) -> str:
    names = (
        "read",
        "good",
        "duplicates",
        "quarantined",
        "dropped",
        "healed",
        "waiting",
        "rows now",
    )
    columns = (Column("table"), *(Column(name, "n") for name in names), Column("balanced"))
    rows = [
        (
            name(each.table),
            count(each.sheet.flow.read),
            count(each.sheet.flow.good),
            count(each.sheet.flow.duplicates),
            count(each.sheet.flow.quarantined),
            count(each.sheet.flow.dropped),
            count(each.sheet.healed),
            count(each.sheet.waiting),
            count(each.sheet.rows),
            '<span class="good">yes</span>' if each.sheet.balanced else '<b class="bad">NO</b>',
        )
        for each in tables
    ]
    caption = (
        "Since the first batch: read = good + duplicates + quarantined + dropped. "
        "Healed rows are those of the good that a backfill or a replay brought in."
    )
    return (
        "<section><h2>Balance sheet</h2>"
        '<p class="lead">Every row that was read is in exactly one place. '
        f"<code>strandline ledger</code> shows the same.</p>{table(caption, columns, rows)}</section>"
    )


def _tables(findings: Findings) -> str:
    active = [each for each in findings.tables if each.flow != Flow() or each.because or each.gate]
    silent = [name(each.table) for each in findings.tables if each not in active]
    notice = f'<p class="lead">Nothing was written to {", ".join(silent)}.</p>' if silent else ""
    return (
        f"<section><h2>What happened</h2>{notice}"
        f"{''.join(section(each, findings) for each in active)}</section>"
    )


def _quarantine(findings: Findings) -> str:
    held = [(each.table, each.quarantine) for each in findings.tables if each.quarantine]
    if not held:
        return ""
    labels = [label for label, _ in held[0][1].ages]
    columns = (
        Column("table"),
        Column("rows", "n"),
        *(Column(label, "n") for label in labels),
        Column("oldest", "n"),
    )
    rows = [
        (
            name(table_id),
            count(each.rows),
            *(count(rows) for _, rows in each.ages),
            moment(each.oldest) if each.oldest else "",
        )
        for table_id, each in held
    ]
    caption = "Rows without a decision yet, by how long ago they arrived."
    return f"<section><h2>Open quarantine</h2>{table(caption, columns, rows)}</section>"


def _proofs(findings: Findings) -> str:
    rows = [
        (
            name(each.table),
            text(each.proof.standing),
            moment(each.proof.at),
            count(each.proof.rows or 0),
        )
        for each in findings.tables
        if each.proof and each.proof.at
    ]
    without = [name(each.table) for each in findings.tables if each.proof and not each.proof.at]
    columns = (Column("table"), Column("worth today"), Column("made"), Column("rows", "n"))
    caption = "Computed again from bronze, as a batch and as a stream that was killed, and compared row for row."
    proven = table(caption, columns, rows) if rows else ""
    missing = f'<p class="lead">None yet for {", ".join(without)}.</p>' if without else ""
    return f"<section><h2>Certificates</h2>{missing}{proven}</section>" if rows or without else ""


def _rules(tables: Sequence[TableFindings]) -> str:
    parts = [f"<h3>{name(each.table)}</h3>{_rulebook(each)}" for each in tables if each.rules]
    return f"<section><h2>Rules</h2>{''.join(parts)}</section>" if parts else ""


def _rulebook(each: TableFindings) -> str:
    broke = {one.rule: one.rows for one in each.failing}
    names = [name for name in each.rules[0] if any(rule[name] for rule in each.rules)]
    columns = (*(Column(name) for name in names), Column("broken by", "n"))
    rows = [
        (
            *(
                f"<code>{text(rule[name])}</code>" if name == "holds" else text(rule[name])
                for name in names
            ),
            count(broke.get(rule["rule"], 0)),
        )
        for rule in each.rules
    ]
    return table(f"What must hold of a row of {name(each.table)}.", columns, rows)


def _legend() -> str:
    rows = "".join(
        f"<dt>{badge(verdict)}</dt><dd>{text(meaning)}</dd>" for verdict, meaning in MEANING.items()
    )
    return f'<section><h2>What the words mean</h2><dl class="legend">{rows}</dl></section>'


def _foot(findings: Findings) -> str:
    return (
        f"<footer><p>{text(findings.lake)}, {moment(findings.since)} to {moment(findings.until)} UTC. "
        "The figures are in this file for programs as well, and <code>strandline report --json</code> "
        "prints them.</p></footer>"
    )


def _data(findings: Findings) -> str:
    """Return the findings as JSON, in which no text can end the script element."""
    data = json.dumps(findings.as_json(), separators=(",", ":"))
    for odd in "<>&":
        data = data.replace(odd, f"\\u{ord(odd):04x}")
    return f'<script type="application/json" id="findings">{data}</script>'
