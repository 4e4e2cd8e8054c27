"""What ``strandline rules`` does; its list is in jobs/cli/rule_list.py."""

import importlib
import json
from pathlib import Path

from jobs.cli import place
from jobs.cli.quarantine import placed
from jobs.cli.screen import emit, note, say
from jobs.core.errors import DefinitionError
from jobs.core.received import PLACE
from jobs.engine.storage.find_rows import Where, look
from jobs.operate import lakes
from jobs.rules import sources
from jobs.rules.alert_rule import AlertRule
from jobs.rules.examples import broken
from jobs.rules.explain import Explanation, explain
from jobs.rules.sigma.folder import STARTER, Folder, read_folder
from jobs.rules.sources import SOURCES, Source
from jobs.rules.threshold_examples import broken_thresholds
from jobs.rules.threshold_rule import ThresholdRule


def tested(folder: Path | None, lake: str | None, *, as_json: bool) -> None:
    """Run examples.

    Raises:
        DefinitionError: A rule does the opposite of what an example says.
    """
    found = read(folder)
    settings, where = lakes.configured(lake)
    note("starting Spark …")
    # Not imported above: the other subcommands answer before it is imported.
    session = importlib.import_module("jobs.operate.session")
    site = session.site(settings, where, None, is_brief=True, says=note)
    wrong = [
        (each.rule.origin, each.rule.id, each.reason) for each in broken(found.rules, site.spark)
    ]
    site.spark.stop()
    wrong += [(rule.origin, rule.id, why) for rule, why in broken_thresholds(found.thresholds)]
    rules = found.every
    examples = sum(len(rule.fires_on) + len(rule.quiet_on) for rule in rules)
    untested = sum(not rule.is_tested for rule in rules)
    if as_json:
        emit(
            {
                "rules": len(rules),
                "examples": examples,
                "untested": untested,
                "broken": [{"rule": id_, "reason": reason} for _, id_, reason in wrong],
            }
        )
    else:
        for origin, _, reason in wrong:
            say(f"{origin}: {reason}")
        say(f"{len(rules):,} rules, {examples:,} examples, {len(wrong):,} of them wrong")
        if untested:
            note(
                f"{untested:,} rules lack an example of one kind; `strandline rules lint` names them"
            )
    note_refused(found)
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
    found = read(folder)
    lacking = [(rule.origin, what) for rule in found.every if (what := _lacks(rule))]
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
    source, row = _event(asked, table, lake)
    found = read(folder)
    said = [explain(rule, row) for rule in found.rules if rule.source == source]
    fired = [each for each in said if each.fires]
    missed = sorted(
        (each for each in said if each.is_near), key=lambda e: (-e.held / e.asked, len(e.failing))
    )[:near]
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
    quiet = len(said) - len(fired) - len(missed)
    say(f"{len(said):,} rules look at {source.table.id}; {quiet:,} others stay quiet")


def undone(lake: str | None, *, as_json: bool) -> None:
    """Take the last promotion back."""
    from jobs.operate.promotion import take_back  # noqa: PLC0415  # the other subcommands do not promote

    _, where = place.existing(lake, writes=True)
    gone, again = take_back(where)
    if as_json:
        emit({"taken_back": gone.version, "live": again.version if again else None})
        return
    live = f"version {again.version} is" if again else "the starter set is"
    say(f"version {gone.version} of {gone.at}, by {gone.by}, is taken back; {live} live again")


def rules_of(folder: Path | None) -> tuple[AlertRule | ThresholdRule, ...]:
    """Return the rules of a folder that run, and note how many do not.

    Raises:
        DefinitionError: There is no such folder.
    """
    found = read(folder)
    note_refused(found)
    return tuple(found.every)


def read(folder: Path | None) -> Folder:
    """Return the rules of a folder, or of the starter set.

    Raises:
        DefinitionError: There is no such folder.
    """
    if folder is not None and not folder.is_dir():
        raise DefinitionError(
            f"there is no folder {folder}", hint="name a folder with Sigma rules, or none."
        )
    return read_folder(folder or STARTER)


def _lacks(rule: AlertRule | ThresholdRule) -> str:
    missing = {
        "an event on which it must fire": not rule.fires_on,
        "one on which it must stay quiet": not rule.quiet_on,
        "a runbook": not rule.runbook,
        "an owner": not rule.owner,
    }
    return ", ".join(what for what, is_missing in missing.items() if is_missing)


def note_refused(found: Folder) -> None:
    """Note how many rules do not run."""
    if found.refused:
        note(
            f"{len(found.refused):,} rules do not run; `strandline rules lint` names each with its reason"
        )


def _explanation(each: Explanation) -> dict[str, object]:
    return {
        "rule": each.rule.id,
        "title": each.rule.title,
        "fires": each.fires,
        "held": each.held,
        "asked": each.asked,
        "failing": list(each.failing),
    }


def _event(
    asked: tuple[Path | None, str | None], table: str | None, lake: str | None
) -> tuple[Source, dict[str, object]]:
    """Return the event that was named, and the source that it is a row of."""
    file, place_in_kafka = asked
    if (file is None) == (place_in_kafka is None):
        raise DefinitionError(
            "name one event", hint="a file, or --event topic/partition/offset for one of the lake."
        )
    if file is None:
        return _of_lake(str(place_in_kafka), lake)
    try:
        event = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"{file} is no event: {error}", hint="write it as one JSON object."
        ) from error
    if not isinstance(event, dict):
        raise DefinitionError(f"{file} is no event", hint="write it as one JSON object.")
    source = sources.find(table) if table else _source_of(event)
    if source is None:
        known = ", ".join(each.table.id for each in SOURCES)
        raise DefinitionError(f"rules do not look at {table}", hint=f"they look at {known}.")
    return source, source.row(event)


def _source_of(event: dict[str, object]) -> Source:
    """Return the source that has the most of an event's fields."""
    return max(
        SOURCES,
        key=lambda each: sum(name in each.names or name in each.fields.names for name in event),
    )


def _of_lake(text: str, lake: str | None) -> tuple[Source, dict[str, object]]:
    """Return an event that silver has."""
    spot = placed(text) or ("", 0, 0)
    _, where = place.existing(lake)
    for source in SOURCES:
        topics = [topic.name for bronze in source.table.upstream for topic in bronze.topics]
        if spot[0] not in topics:
            continue
        found = look(where.table(source.table), Where(equal=dict(zip(PLACE, spot, strict=True))))
        if found:
            return source, source.row({n: found[0].row[n] for n in source.fields.names})
        raise DefinitionError(
            f"{source.table.id} has no row of {text}", hint=f"`strandline why {text}` explains it."
        )
    raise DefinitionError(
        f"rules look at no table of the topic {spot[0]}",
        hint=f"they look at {', '.join(each.table.id for each in SOURCES)}.",
    )
