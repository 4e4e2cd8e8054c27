"""What alert rules say of their examples, and of an event that is named."""

import io
import json
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession
from strandline import catalog

from strandline.alerting import alert_rule as declared
from strandline.alerting.alert_rule import (
    AlertRule,
    AlertSource,
    ThresholdRule,
    model_rule,
    rules_folder,
    sources,
)
from strandline.alerting.compile import Explanation, explain
from strandline.alerting.condition import columns
from strandline.alerting.notice import RuleWords
from strandline.alerting.rule_folder import broken, broken_thresholds, file_of
from strandline.alerting.sigma import Folder, UnreadableError, read_folder
from strandline.core.errors import DefinitionError
from strandline.core.routes import schemas_from
from strandline.core.topic import PLACE, RECEIVED
from strandline.core.verdict import judged, own_columns
from strandline.engine.flow.function_plan import hidden
from strandline.engine.lake import shelves
from strandline.engine.lake.find_rows import Where, look
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import roles_of
from strandline.engine.runtime import clock
from strandline.engine.runtime.roles import Role
from strandline.engine.runtime.settings import Settings
from strandline.operate.lakes import placed
from strandline.project import package


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A rule that does the opposite of what an example says, and how."""

    origin: str
    rule: str
    reason: str


def contradictions(found: Folder, spark: SparkSession) -> list[Contradiction]:
    """Run the examples of rules, of each kind through the plan that raises alerts.

    Raises:
        DefinitionError: A source that they look at declares a column that its table does not have.
    """
    named = (source for rule in found.every for source in rule.sources)
    refuse_other_columns(dict.fromkeys(each for each in named if not each.made), spark)
    return [
        *(
            Contradiction(each.rule.origin, each.rule.id, each.reason)
            for each in broken(found.rules, spark)
        ),
        *(
            Contradiction(rule.origin, rule.id, why)
            for rule, why in broken_thresholds(found.thresholds)
        ),
    ]


def wrong_rules(spark: SparkSession) -> list[str]:
    """Return what is wrong with the alert rules of a project: one that cannot be read, one that contradicts an example.

    Args:
        spark: A session, such as that of `trial_spark`.

    Raises:
        DefinitionError: A source declares a column that its table does not have.
    """
    refuse_other_columns(declared.sources(), spark)
    found = read_folder(declared.rules_folder())
    return [
        *(f"{each.origin}: {each.reason}" for each in found.refused),
        *(f"{each.origin}: {each.reason}" for each in contradictions(found, spark)),
    ]


def refuse_other_columns(asked: Iterable[AlertSource], spark: SparkSession) -> None:
    """Refuse sources whose columns are other than those of their tables.

    Raises:
        DefinitionError: A column is not there, or is of another type.
    """
    for source in asked:
        with schemas_from(lambda _: None):
            rows = judged(spark.createDataFrame([], RECEIVED), source.table)
        there = {each.name: each.dataType for each in rows.schema}
        for each in source.fields:
            if each.dataType != there.get(each.name):
                kind = each.dataType.simpleString()
                has = (
                    f"{each.name} of type {there[each.name].simpleString()}"
                    if each.name in there
                    else "no such column"
                )
                raise DefinitionError(
                    f"{package()}.{declared.PART} declares {each.name} of type {kind} of {source.table.id}, which has {has}",
                    hint=f"its columns are {', '.join(own_columns(rows))}.",
                    table=source.table.id,
                )


def lacks(rule: AlertRule | ThresholdRule) -> str:
    """Return in words what a rule that runs should have besides."""
    missing = {
        "an event on which it must fire": not rule.fires_on,
        "one on which it must stay quiet": not rule.quiet_on,
        "a runbook": not rule.runbook,
        "an owner": not rule.owner,
    }
    return ", ".join(what for what, is_missing in missing.items() if is_missing)


def explained(
    source: AlertSource, row: dict[str, object], found: Folder, near: int
) -> tuple[list[Explanation], list[Explanation], int]:
    """Return which rules fire on an event, those that nearly do, the nearest first, and how many look at its table."""
    said = [explain(rule, row) for rule in found.rules if rule.source == source]
    fired = [each for each in said if each.fires]
    missed = sorted(
        (each for each in said if each.is_near), key=lambda e: (-e.held / e.asked, len(e.failing))
    )[:near]
    return fired, missed, len(said)


def event_of(
    asked: tuple[Path | None, str | None], table: str | None, where: Callable[[], Lake]
) -> tuple[AlertSource, dict[str, object]]:
    """Return the event that was named, and the source that it is a row of.

    Args:
        asked: The file with it, or its place in Kafka.
        table: The table of the file's event.
        where: Returns the lake, of which only an event of the lake is asked.

    Raises:
        DefinitionError: It is no event, or no rule looks at its table.
    """
    file, place_in_kafka = asked
    if (file is None) == (place_in_kafka is None):
        raise DefinitionError(
            "name one event", hint="a file, or --event topic/partition/offset for one of the lake."
        )
    if file is None:
        return _of_lake(str(place_in_kafka), where)
    try:
        event = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DefinitionError(
            f"{file} is no event: {error}", hint="write it as one JSON object."
        ) from error
    if not isinstance(event, dict):
        raise DefinitionError(f"{file} is no event", hint="write it as one JSON object.")
    source = declared.find(table) if table else _source_of(event)
    if source is None:
        known = ", ".join(each.table.id for each in sources())
        raise DefinitionError(f"rules do not look at {table}", hint=f"they look at {known}.")
    return source, source.row(event)


def _source_of(event: dict[str, object]) -> AlertSource:
    """Return the source that has the most of an event's fields."""
    return max(
        sources(),
        key=lambda each: sum(name in each.names or name in each.fields.names for name in event),
    )


def _of_lake(text: str, lake: Callable[[], Lake]) -> tuple[AlertSource, dict[str, object]]:
    """Return an event that silver has."""
    spot = placed(text) or ("", 0, 0)
    where = lake()
    for source in sources():
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
        hint=f"they look at {', '.join(each.table.id for each in sources())}.",
    )


def refuse_masked(found: Folder, lake: Lake) -> None:
    """Refuse rules that a person has typed and that compare what is masked for this person: whether one fires says what a row has.

    Raises:
        DefinitionError: One does, and the roles of the lake do not let this user see it.
    """
    if roles_of(lake).allows(clock.login(), Role.UNMASK):
        return
    for rule in (*found.rules, *(part.rule for each in found.thresholds for part in each.parts)):
        table = rule.source.table
        if masked := sorted(columns(rule.when) & hidden(table, lake)):
            raise DefinitionError(
                f"{rule.origin} compares {' and '.join(masked)} of {table.id}, which is masked: whether the rule fires would say "
                "what a row has",
                hint="leave such columns out. Who has the role unmask may try the rule, and the rules of the project may be tried by "
                "all who read.",
                table=table.id,
                rule=rule.id,
            )


# Which alert rules are meant: a folder, a file, a rule of the project, or a folder as it was at a commit; and what a notice says of one.


def live_folder(found: Settings, lake: Lake) -> Path:
    """Return the folder of the rules that raise alerts where a user names none.

    It is that of the settings, or of the rules that were promoted in the lake, or of the project.
    """
    return Path(found.rules) if found.rules else promoted_folder(lake)


def promoted_folder(lake: Lake) -> Path:
    """Return the folder of the rules that were promoted in a lake, or of the project."""
    return shelves.live_rules(lake) or rules_folder()


def model_rules(lake: Lake) -> list[AlertRule]:
    """Return the rules of the models of which a version was promoted in a lake."""
    made = (model_rule(each, shelves.in_force(lake, each.name)) for each in catalog.models())
    return [rule for rule in made if rule is not None]


def chosen(named: str | None) -> Folder:
    """Return the rules of a folder or of a file, one rule of the project, or all of them.

    Raises:
        DefinitionError: There is no such folder, file or rule.
    """
    if named is None:
        return read_folder(rules_folder())
    path = Path(named)
    if path.is_dir():
        return read_folder(path)
    if path.is_file():
        return _only(read_folder(path.parent), lambda origin, _: file_of(origin) == path.name)
    name = named.removesuffix(".yml")
    found = _only(
        read_folder(rules_folder()),
        lambda origin, id_: name in {file_of(origin).removesuffix(".yml"), id_},
    )
    if not (found.rules or found.thresholds):
        raise DefinitionError(
            f"{named} is no folder, no file, and no rule of the project",
            hint="`strandline rules list` shows those; or name a folder with Sigma rules.",
        )
    return found


def read_rules(folder: Path | None) -> Folder:
    """Return the rules of a folder, or of the project.

    Raises:
        DefinitionError: There is no such folder.
    """
    if folder is not None and not folder.is_dir():
        raise DefinitionError(
            f"there is no folder {folder}", hint="name a folder with Sigma rules, or none."
        )
    return read_folder(folder or rules_folder())


def refused_words(found: Folder) -> str:
    """Return in words how many rules do not run; empty where all do."""
    if not found.refused:
        return ""
    return f"{len(found.refused):,} rules do not run; `strandline rules lint` names each with its reason"


def folder_of(named: str | None) -> Path:
    """Return the folder in which the files of these rules are."""
    path = Path(named) if named is not None else rules_folder()
    if path.is_dir():
        return path
    return path.parent if path.is_file() else rules_folder()


def compared(named: str, own: str | None) -> Folder:
    """Return the rules to compare with: a folder or a file, or what was named itself, as of a commit of Git.

    Raises:
        DefinitionError: It is neither.
    """
    if Path(named).exists():
        return chosen(named)
    place = Path(own) if own and Path(own).exists() else rules_folder()
    folder = place if place.is_dir() else place.parent
    with TemporaryDirectory() as scratch:
        _unpack(folder, named, Path(scratch))
        inside = Path(scratch) / place.name if place.is_file() else Path(scratch)
        return chosen(str(inside)) if inside.exists() else Folder((), ())


def _unpack(folder: Path, commit: str, into: Path) -> None:
    """Write the files that a folder had at a commit.

    Raises:
        DefinitionError: There is no such commit.
    """
    if commit.startswith("-"):
        raise DefinitionError(f"{commit} is no folder", hint="name one, or a commit of Git.")
    command = ["git", "-C", str(folder), "archive", "--format=tar", commit, "."]
    try:
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  # our own command
    except OSError as error:
        raise DefinitionError(
            f"{commit} is no folder, and Git is not here to ask for a commit",
            hint="name a folder with the other version of the rules.",
        ) from error
    if done.returncode:
        raise DefinitionError(
            f"{commit} is no folder, and no commit of Git that has {folder}",
            hint="name a folder with the other version of the rules, or a commit such as HEAD~1.",
        )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(into, filter="data")


def _only(folder: Folder, wanted: Callable[[str, str], bool]) -> Folder:
    return Folder(
        tuple(rule for rule in folder.rules if wanted(rule.origin, rule.id)),
        tuple(each for each in folder.refused if wanted(each.origin, "")),
        tuple(rule for rule in folder.thresholds if wanted(rule.origin, rule.id)),
    )


def tried(folder: Path) -> tuple[str, str]:
    """Return what `strandline doctor` says of a folder, and what to do; the latter is empty where all is well."""
    if not folder.is_dir():
        return f"there is no folder {folder}", "correct `rules`, or make the folder."
    try:
        read = read_folder(folder)
    except (UnreadableError, OSError) as error:
        return str(error), "correct `rules`."
    refused = len(read.refused)
    hint = "`strandline rules lint` names each with its reason." if refused else ""
    return f"{len(read.every)} rules in {folder}, {refused} refused", hint


READ_AGAIN = 10.0
"""Seconds between two readings of a folder that does not have a rule."""


class RuleTexts:
    """The titles, owners and runbooks of a folder; it is read again when it does not have a rule that raised an alert."""

    def __init__(
        self, where: Callable[[], Path], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Read the folder that ``where`` returns; it is another one after a promotion."""
        self._where, self._clock = where, clock
        self._lock = threading.Lock()
        self._read(where())

    def of(self, rule: str) -> RuleWords:
        """Return what the folder says of a rule; nothing where it does not have it."""
        with self._lock:
            folder = self._where()
            is_new = rule not in self._known and self._clock() >= self._due
            if is_new or folder != self._read_from:
                self._read(folder)
            return self._known.get(rule, RuleWords())

    def _read(self, folder: Path) -> None:
        self._known = _texts(folder)
        self._read_from, self._due = folder, self._clock() + READ_AGAIN


def _texts(folder: Path) -> dict[str, RuleWords]:
    try:
        found = read_folder(folder)
    except UnreadableError:  # too many files; `strandline alerts` logs that
        return {}
    rules = found.every
    return {
        rule.id: RuleWords(title=rule.title, owner=rule.owner, runbook=rule.runbook)
        for rule in rules
    }
