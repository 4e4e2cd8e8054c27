"""Read a folder of Sigma rules: those that run, and each of the others with its reason. One never stops the others."""

from dataclasses import dataclass
from pathlib import Path

from jobs.rules.alert_rule import AlertRule
from jobs.rules.condition import Matches, clauses
from jobs.rules.regex.ambiguous import run_away
from jobs.rules.regex.parse import parse
from jobs.rules.regex.trial import PATIENCE, too_slow
from jobs.rules.sigma.files import files
from jobs.rules.sigma.read_rule import read_rule
from jobs.rules.sigma.tree import UnsupportedError

STARTER = Path(__file__).parents[1] / "starter"


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """A file, or a rule in it, that does not run, and why."""

    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder has."""

    rules: tuple[AlertRule, ...]
    refused: tuple[RefusedRule, ...]


def read_folder(folder: Path, *, patience: float = PATIENCE) -> Folder:
    """Read every rule of a folder.

    Args:
        folder: Where the YAML files are, also in folders inside it.
        patience: Seconds that a regular expression may take on hostile texts.
    """
    rules: dict[str, AlertRule] = {}
    refused: list[RefusedRule] = []
    for file in files(folder):
        if file.reason is not None:
            refused.append(RefusedRule(file.name, file.reason))
        for number, document in enumerate(file.documents, 1):
            origin = file.name if len(file.documents) == 1 else f"{file.name}#{number}"
            try:
                rule = read_rule(document, origin)
                _refuse_run_away(rule)
            except UnsupportedError as error:
                refused.append(RefusedRule(origin, str(error)))
                continue
            if rule.id in rules:
                twice = f"its id {rule.id} is that of {rules[rule.id].origin}"
                refused.append(RefusedRule(origin, twice))
                continue
            rules[rule.id] = rule
    slow = _slow(tuple(rules.values()), patience)
    refused += [RefusedRule(rule.origin, reason) for rule, reason in slow]
    for rule, _ in slow:
        del rules[rule.id]
    return Folder(tuple(rules.values()), tuple(sorted(refused, key=lambda each: each.origin)))


def _refuse_run_away(rule: AlertRule) -> None:
    for clause in _expressions(rule):
        read = parse(clause.pattern, clause.flags)
        reason = run_away(read.tree, ignores_case="i" in read.flags)
        if reason:
            raise UnsupportedError(f"the regular expression {_short(clause.pattern)} has {reason}")


def _slow(rules: tuple[AlertRule, ...], patience: float) -> list[tuple[AlertRule, str]]:
    """Return the rules with a regular expression that is too slow on hostile texts."""
    expressions = list({(e.pattern, e.flags): None for rule in rules for e in _expressions(rule)})
    if not expressions:
        return []
    slow = {expressions[number] for number in too_slow(expressions, patience)}
    return [
        (
            rule,
            f"the regular expression {_short(clause.pattern)} takes more than {patience:g} s on a hostile text",
        )
        for rule in rules
        if (clause := next((e for e in _expressions(rule) if (e.pattern, e.flags) in slow), None))
    ]


def _expressions(rule: AlertRule) -> list[Matches]:
    return [clause for clause in clauses(rule.when) if isinstance(clause, Matches)]


def _short(pattern: str) -> str:
    return f"/{pattern[:60]}{'…' if len(pattern) > 60 else ''}/"  # noqa: PLR2004  # a line's worth
