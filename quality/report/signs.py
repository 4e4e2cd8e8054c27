"""The sign and the colour of each verdict."""

from quality.report.findings import Verdict

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
