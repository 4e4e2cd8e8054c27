"""The parts of the page: signs, badges, tables. Callers escape the text that they pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quality.report.findings import Verdict
from quality.report.words import attribute, text

TONE = {
    Verdict.SILENT: "none",
    Verdict.BELIEVED: "good",
    Verdict.WARNED: "warn",
    Verdict.STALE: "bad",
    Verdict.HELD: "bad",
    Verdict.UNBALANCED: "bad",
}
SIGNS = {
    Verdict.SILENT: '<circle cx="12" cy="12" r="2"/>',
    Verdict.BELIEVED: '<path class="s" d="m7 12.5 3.4 3.4L17 9"/>',
    Verdict.WARNED: '<path class="s" d="M12 7v6"/><circle cx="12" cy="16.7" r="1.3"/>',
    Verdict.STALE: '<path class="s" d="M12 7.5V12l3 2.2"/>',
    Verdict.HELD: '<path class="s" d="M9.5 8.5v7M14.5 8.5v7"/>',
    Verdict.UNBALANCED: '<path class="s" d="M7.5 10h9M7.5 14h9M14.5 7l-5 10"/>',
}
"""Signs drawn on a disc, so no verdict is shown by colour alone."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        name: The heading.
        kind: ``n`` for numbers, which are aligned to the right.
    """

    name: str
    kind: str = ""


def symbols() -> str:
    """Return the definitions of the signs, which the page uses by name."""
    made = "".join(
        f'<symbol id="{_name(verdict)}" viewBox="0 0 24 24">{_disc(verdict)}{sign}</symbol>'
        for verdict, sign in SIGNS.items()
    )
    return (
        '<svg width="0" height="0" style="position:absolute" aria-hidden="true">'
        "<style>.s{fill:none;stroke:var(--paper);stroke-width:2.2;stroke-linecap:round;"
        "stroke-linejoin:round}.d{fill:currentColor}symbol circle:not(.d){fill:var(--paper)}"
        f"#{_name(Verdict.SILENT)} circle{{fill:currentColor}}</style>{made}</svg>"
    )


def sign(verdict: Verdict) -> str:
    """Return the sign of a verdict; the page shows the word beside it."""
    return f'<svg class="{TONE[verdict]}" aria-hidden="true"><use href="#{_name(verdict)}"/></svg>'


def badge(verdict: Verdict) -> str:
    """Return a verdict as sign and word."""
    return f'<span class="badge {TONE[verdict]}">{sign(verdict)}{text(verdict)}</span>'


def listed(reasons: Sequence[str], most: int, where: str = "") -> str:
    """Return reasons as a list: the first ones, and the number of the others."""
    items = [f"<li>{text(reason)}</li>" for reason in reasons[:most]]
    if len(reasons) > most:
        items.append(f"<li>and {len(reasons) - most:,} more{where}</li>")
    return f'<ul class="because">{"".join(items)}</ul>' if items else ""


def table(
    caption: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, kind: str = "stack"
) -> str:
    """Return a table whose first column is the heading of each row.

    Args:
        caption: The caption.
        columns: The columns.
        rows: The cells of each row, as HTML.
        kind: ``stack`` if a narrow screen shows each row as a block of its own.
    """
    heads = "".join(
        f'<th scope="col" role="columnheader" class="{column.kind}">{text(column.name)}</th>'
        for column in columns
    )
    body = "".join(f'<tr role="row">{"".join(_cells(columns, row))}</tr>' for row in rows)
    return (
        f'<div class="scroll"><table class="{kind}" role="table"><caption>{caption}</caption>'
        f'<thead role="rowgroup"><tr role="row">{heads}</tr></thead>'
        f'<tbody role="rowgroup">{body}</tbody></table></div>'
    )


def _cells(columns: Sequence[Column], row: Sequence[str]) -> Iterator[str]:
    for place, (column, cell) in enumerate(zip(columns, row, strict=True)):
        if place == 0:
            yield f'<th scope="row" role="rowheader" class="{column.kind}">{cell}</th>'
        else:
            label = attribute(column.name)
            kind = f"{column.kind} nil" if cell == "0" else column.kind
            yield f'<td role="cell" class="{kind}" data-label="{label}">{cell}</td>'


def _disc(verdict: Verdict) -> str:
    return "" if verdict is Verdict.SILENT else '<circle class="d" cx="12" cy="12" r="11"/>'


def _name(verdict: Verdict) -> str:
    return f"v-{verdict.name.lower()}"
