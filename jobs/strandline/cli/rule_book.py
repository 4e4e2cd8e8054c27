"""What ``strandline rules`` does; its list is in jobs/strandline/cli/rule_list.py."""

import importlib
from pathlib import Path

from strandline.alerting.rules.explain import Explanation
from strandline.cli import place
from strandline.cli.screen import emit, note, say
from strandline.core.errors import DefinitionError
from strandline.operate import lakes
from strandline.operate.alerts.examples import contradictions, event_of, lacks
from strandline.operate.alerts.examples import explained as explained_rules
from strandline.operate.alerts.rules import read_rules, refused_words


def tested(folder: Path | None, lake: str | None, *, as_json: bool) -> None:
    """Run examples.

    Raises:
        DefinitionError: A rule does the opposite of what an example says.
    """
    found = read_rules(folder)
    settings, where = lakes.configured(lake)
    note("starting Spark …")
    # Not imported above: the other subcommands answer before it is imported.
    session = importlib.import_module("strandline.operate.session")
    site = session.site(settings, where, None, is_brief=True, says=note)
    wrong = contradictions(found, site.spark)
    site.spark.stop()
    rules = found.every
    examples = sum(len(rule.fires_on) + len(rule.quiet_on) for rule in rules)
    untested = sum(not rule.is_tested for rule in rules)
    if as_json:
        emit(
            {
                "rules": len(rules),
                "examples": examples,
                "untested": untested,
                "broken": [{"rule": each.rule, "reason": each.reason} for each in wrong],
            }
        )
    else:
        for each in wrong:
            say(f"{each.origin}: {each.reason}")
        say(f"{len(rules):,} rules, {examples:,} examples, {len(wrong):,} of them wrong")
        if untested:
            note(
                f"{untested:,} rules lack an example of one kind; `strandline rules lint` names them"
            )
    if words := refused_words(found):
        note(words)
    if wrong:
        raise DefinitionError(
            f"{len(wrong):,} examples contradict their rules",
            hint="correct the rule or the example; `strandline rules explain` names the clauses that fail.",
        )


def linted(folder: Path | None, *, as_json: bool) -> None:
    """List what does not run, and what rules lack.

    Raises:
        DefinitionError: A rule does not run.
    """
    found = read_rules(folder)
    lacking = [(rule.origin, what) for rule in found.every if (what := lacks(rule))]
    if as_json:
        emit(
            {
                "runs": len(found.every),
                "refused": [{"file": e.origin, "reason": e.reason} for e in found.refused],
                "lacking": [{"file": origin, "lacks": what} for origin, what in lacking],
            }
        )
    else:
        for refused in found.refused:
            say(f"{refused.origin}: {refused.reason}")
        for origin, what in lacking:
            say(f"{origin}: runs, and lacks {what}")
        say(f"{len(found.every):,} rules run, {len(found.refused):,} do not")
    if found.refused:
        raise DefinitionError(
            f"{len(found.refused):,} rules do not run", hint="correct each by its reason above."
        )


def explained(  # noqa: PLR0913  # as the command line has them
    asked: tuple[Path | None, str | None],
    table: str | None,
    folder: Path | None,
    *,
    near: int,
    lake: str | None,
    as_json: bool,
) -> None:
    """Show what rules say of one event."""
    source, row = event_of(asked, table, lambda: place.existing(lake)[1])
    fired, missed, said = explained_rules(source, row, read_rules(folder), near)
    if as_json:
        emit([_explanation(each) for each in (*fired, *missed)])
        return
    for each in fired:
        say(f"fires: {each.rule.title} ({each.rule.severity}, {each.rule.origin})")
    for each in missed:
        say(
            f"near miss, {each.held} of {each.asked} parts hold: {each.rule.title} ({each.rule.origin})"
        )
        for reason in each.failing:
            say(f"  {reason}")
    quiet = said - len(fired) - len(missed)
    say(f"{said:,} rules look at {source.table.id}; {quiet:,} others stay quiet")


def undone(lake: str | None, *, as_json: bool) -> None:
    """Take the last promotion back."""
    from strandline.operate.alerts.promotion import take_back  # noqa: PLC0415  # the other subcommands do not promote

    _, where = place.existing(lake, writes=True)
    gone, again = take_back(where)
    if as_json:
        emit({"taken_back": gone.version, "live": again.version if again else None})
        return
    live = f"version {again.version} is" if again else "the project's rules are"
    say(f"version {gone.version} of {gone.at}, by {gone.by}, is taken back; {live} live again")


def _explanation(each: Explanation) -> dict[str, object]:
    return {
        "rule": each.rule.id,
        "title": each.rule.title,
        "fires": each.fires,
        "held": each.held,
        "asked": each.asked,
        "failing": list(each.failing),
    }
