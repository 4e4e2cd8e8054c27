"""The page: one self-contained file, which also holds the findings as JSON for programs.

It is read on a telephone at night, printed for an auditor, and mailed; so it has no outside asset, no script, and a
policy that lets no script run, whatever a payload may hold.

The page is a template of Jinja2 (page.html), which reads as the page that it makes. Whatever a template writes becomes
text by words.py, which is stricter than Jinja's own escaping; only what these modules made as HTML passes as it is.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from strandline_quality.report import charts, pictures, words
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
    *(words.ago, words.attribute, words.count, words.day, words.moment, words.name, words.share),
    *(words.span, charts.meter, pictures.trend, symbol, tone),
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
            active=[(each, pictures.pictures(each, findings)) for each in active],
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
    return value if isinstance(value, Markup) else Markup(words.text(value))  # noqa: S704  # escaped


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
