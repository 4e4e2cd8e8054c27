"""The page of a backtest: what each rule would have raised, day by day, as a picture; one file that needs nothing else.

It is made as the daily report is (quality/strandline_quality/report/page.py): the same style, no script that runs, the findings inside as
JSON.
"""

from markupsafe import Markup

from strandline_quality.report.backtest import Backtest, Change, RuleFigures
from strandline_quality.report.charts import Bar, bars
from strandline_quality.report.page import data, environment
from strandline_quality.report.words import count, day

MEANING = {
    Change.ADDED: "only the new version raises it",
    Change.GONE: "only the old version raised it",
    Change.MOVED: "both raise it, on the same event, with the version in its id",
}

SHOWN = 200
"""Rules that have a section of their own; the table above has all of them."""


def page(found: Backtest) -> str:
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
            change_meanings=MEANING,
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
