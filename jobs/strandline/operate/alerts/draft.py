"""The draft of alerts: what rules look at, a first rule with its examples, and the test of all rules.

Each runs as it is and passes its own test. In a project that has alerts a rule is added, and what is there is left as it is.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from string import Template
from uuid import NAMESPACE_URL, uuid5

from pyspark.sql.types import StructType
from strandline import catalog

from strandline.alerting import alert_rule as declared
from strandline.alerting.alert_rule import KINDS, AlertSource
from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.table import Judged, Table
from strandline.operate.drafts import scaffold
from strandline.project import package

SOURCE = '''"""What the alert rules of this project look at; the rules are in the folder `rules` beside.

FILL IN: of each table the columns that a rule may name, and with whom or what an event is about.
"""
$types
from strandline import AlertSource

from $package.silver import $table

SOURCES = (
    AlertSource(
        table=$table.TABLE,
        fields=$fields,
        # FILL IN: with whom or what an event is about; by it alerts are counted.
        entity="$entity",
    ),
)
'''

RULE = """title: 'FILL IN: $words'
id: $id
status: experimental
description: 'FILL IN: why a person wants to know of it.'
logsource: {service: $table}
detection:
    # FILL IN: what an event is like on which it fires.
    found:
        $column: $value
    condition: found
level: medium
strandline:
    # FILL IN: who answers, and what they do then: a page, or an address.
    owner: '$owner'
    runbook: README.md
    fires_on:
        - {$column: $value}
    quiet_on:
        - {$column: $other}
"""

TEST = '''"""The alert rules of this project do what their examples say."""

from pyspark.sql import SparkSession
from strandline import wrong_rules


def test_every_rule_runs_and_does_what_its_examples_say(spark: SparkSession) -> None:
    """What is wrong is named: a rule that cannot be read, or one that fires where it must not."""
    assert wrong_rules(spark) == []
'''

TESTED = Path("tests", "rules", "test_rules.py")


def write(name: str, reads: str) -> Iterator[Path]:
    """Write what is missing for a first rule about a table, and yield the path of each file within the project.

    Args:
        name: The name of the rule's file.
        reads: The table that it looks at.

    Raises:
        DefinitionError: The name is none, the table is not judged or not declared beside others, or a file is there or
            cannot be written.
    """
    if scaffold.TABLE_NAME.fullmatch(name) is None:
        raise DefinitionError(
            f"{name!r} is no name for a rule",
            hint="write it in small letters, digits and single underscores, such as large_order.",
            name=name,
        )
    table = scaffold.source(reads, {Layer.SILVER})
    if not isinstance(table, Judged):
        raise DefinitionError(
            f"{table.id} is {type(table).__name__}, and rules look at events one by one",
            hint="name a silver table of kind Judged: `strandline tables` lists them.",
            table=table.id,
        )
    source, made = _source(table)
    root = scaffold.root()
    own = scaffold.folder_of_tables()
    files = {own / "rules" / f"{name}.yml": _rule(name, source)}
    if not catalog.declares(declared.PART):
        files[own / f"{declared.PART}.py"] = made
    if not (root / TESTED).exists():
        files[TESTED] = TEST
    yield from scaffold.put(root, files)


def _source(table: Judged) -> tuple[AlertSource, str]:
    """Return the source of a table, and the module that declares it where the project has none.

    Raises:
        DefinitionError: The project declares other tables.
    """
    if catalog.declares(declared.PART):
        if found := declared.find(table.id):
            return found, ""
        raise DefinitionError(
            f"{package()}.{declared.PART} does not declare {table.id}",
            hint=f"add AlertSource(table={table.name}.TABLE, fields={table.name}.FIELDS, "
            f"entity={_entity(table, table.key)!r}) to its SOURCES, then type this again.",
            table=table.id,
        )
    fields, types, written = _columns(table)
    entity = _entity(table, fields.fieldNames())
    facts = {
        "types": types,
        "package": package(),
        "table": table.name,
        "fields": written,
        "entity": entity,
    }
    source = AlertSource(table=table, fields=fields, entity=entity)
    return source, Template(SOURCE).substitute(facts)


def _columns(table: Judged) -> tuple[StructType, str, str]:
    """Return the columns of a table that a rule can ask about, the import that they need, and how they are written.

    They are those that its module parses with; where these lack the key or the time, the key and the time, as texts and a time.
    """
    module = importlib.import_module(f"{package()}.{table.layer}.{table.name}")
    parsed: object = getattr(module, "FIELDS", None)
    of = f"{table.name}.FIELDS"
    if isinstance(parsed, StructType):
        usable = StructType([each for each in parsed if isinstance(each.dataType, KINDS)])
        if usable == parsed:
            return usable, "", of
        if {*table.key, table.event_at} <= {*usable.fieldNames()}:
            listed = ", ".join(f'"{name}"' for name in usable.fieldNames())
            return (
                usable,
                "\nfrom pyspark.sql.types import StructType",
                f"StructType([{of}[name] for name in ({listed})])",
            )
    kinds = dict.fromkeys(table.key, "string") | {table.event_at: "timestamp"}
    fields = StructType()
    for name, kind in kinds.items():
        fields = fields.add(name, kind)
    added = "".join(f'.add("{name}", "{kind}")' for name, kind in kinds.items())
    return fields, "\nfrom pyspark.sql.types import StructType", f"StructType(){added}"


def _entity(table: Table, names: "list[str] | tuple[str, ...]") -> str:
    """Return a column that may be with whom or what an event is about: not masked, of the key if possible.

    Raises:
        DefinitionError: Each is masked.
    """
    shown = [name for name in (*table.key, *names) if name not in table.secret]
    if not shown:
        raise DefinitionError(
            f"each column of {table.id} that a rule may name is masked",
            hint="an alert is about someone or something that pages may show; let the table have such a column.",
            table=table.id,
        )
    return str(shown[0])


def _rule(name: str, source: AlertSource) -> str:
    """Return the first rule about a source."""
    column = next(
        (each for each in source.fields.fieldNames() if not source.is_time(each)), source.entity
    )
    value, other = ("FILL-IN", "another") if source.is_text(column) else ("1", "2")
    facts = {
        "words": name.replace("_", " "),
        "id": str(uuid5(NAMESPACE_URL, f"{package()}/{name}")),
        "table": source.table.name,
        "column": column,
        "value": value,
        "other": other,
        "owner": source.table.owner,
    }
    return Template(RULE).substitute(facts)
