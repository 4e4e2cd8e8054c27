"""``new``, ``init``, ``setup``, ``doctor``, ``explain``, ``lint`` and ``contract``: a project is begun, what it needs is fetched and checked, a verb is explained, its files are read, a promise written.

``new`` writes the module and the test of a table, or a first alert rule; they run as they are, to be filled in. ``doctor`` checks
what is needed, and prints what to type.

Nothing is written here about the verb that ``explain`` explains: the table of the groups says what it reads and changes, and its
own help has the sentences about its exit code, which are looked up there.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline.cli import main
from strandline.cli.answers import ANSWERS, Schema
from strandline.cli.answers import schema as schema_of
from strandline.cli.groups import ABOUT
from strandline.cli.screen import JsonOption, LakeOption, emit, say
from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.kind import Layer
from strandline.engine.runtime.settings import choose_profile
from strandline.operate.drafts import scaffold
from strandline.operate.drafts.scaffold import make
from strandline.operate.listener import CODES
from strandline.project import project
from strandline_infra import installation
from strandline_infra import setup as steps
from strandline_infra.installation import Installed, SetupError, here, is_clone

if TYPE_CHECKING:
    from strandline.operate.drafts.draft import Drafted


NameArgument = Annotated[
    str, typer.Argument(help="Name of module, table, asset and test: small_letters_and_digits.")
]
SqlOption = Annotated[
    bool, typer.Option("--sql", help="Write the table as one file of SQL (infra/docs/sql.md).")
]
ReadsOption = Annotated[str, typer.Option(help="The table that it reads, such as bronze.orders.")]

SAMPLE = 10_000
"""Records that are looked at."""

NEW_HELP = """Write the module and the test of a new table, or a first alert rule, to fill in.

\b
strandline new topic orders
strandline new silver orders --reads bronze.orders
strandline new gold orders_10m --reads silver.orders
strandline new dimension prices --reads silver.price_changes --by product_id
strandline new alerts large_order --reads silver.orders
"""

new = typer.Typer(
    help=NEW_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _register_new(app)
    _register_init(app)
    _register_setup(app)
    _register_doctor(app)
    _register_explain(app)
    _register_contract(app)
    app.command("lint")(lint)


def _register_new(app: typer.Typer) -> None:
    """Add the verb with its three kinds."""
    app.add_typer(new, name="new")


SampleOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=100_000, help="Look at so many records, and draft by them."
    ),
]


@new.command("topic")
def new_topic(
    name: Annotated[
        str,
        typer.Argument(help="Name of module and table; with --from-topic the name of the topic."),
    ],
    from_topic: Annotated[
        bool,
        typer.Option("--from-topic", help="Look at its records: their format and their kinds."),
    ] = False,
    sample: SampleOption = None,
    table: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --from-topic: the name of module and table; made of the topic's when absent.",
        ),
    ] = "",
    lake: LakeOption = None,
) -> None:
    r"""Take in a Kafka topic: writes the module bronze/NAME.py and its test.

    With --from-topic records of the topic decide: in which format they are, and whether there are several kinds.

    \b
    strandline new topic orders
    strandline new topic shop-events --from-topic
    strandline new topic 2024 --from-topic --table orders_of_2024
    """
    if from_topic or sample or table:
        from strandline.operate.drafts import draft  # noqa: PLC0415  # Kafka's client, which the other drafts need not

        _say_seen(draft.new_topic(name, sample or SAMPLE, lake, table))
        return
    try:
        scaffold.refuse_name(name)
    except DefinitionError as error:
        raise DefinitionError(
            error.message,
            hint=f"{error.hint.rstrip('.')}; over a topic of this name, whose records are looked at: "
            f"`{scaffold.over_topic(name)}`.",
            name=name,
        ) from error
    facts = {"topic": name.replace("_", "-")}
    _say(scaffold.write(Layer.BRONZE, name, facts))


@new.command("silver")
def new_silver(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    name: NameArgument,
    reads: ReadsOption,
    takes: Annotated[
        str, typer.Option(metavar="KIND", help="The kind of records, where there are several.")
    ] = "",
    sample: SampleOption = None,
    in_sql: SqlOption = False,
    lake: LakeOption = None,
) -> None:
    r"""Parse and judge a bronze table: writes the module silver/NAME.py and its test.

    With --sample records decide, of the lake or of the topic: fields with types, key, event time, rules, masks.

    \b
    strandline new silver orders --reads bronze.orders
    strandline new silver orders --reads bronze.shop_events --takes order --sample 10000
    strandline new silver orders --sql --reads bronze.orders
    """
    if sample and in_sql:
        raise DefinitionError(
            "what records show is written in Python",
            hint="leave --sample or --sql out; `fields` of the one is what the other has as FIELDS.",
        )
    if sample:
        from strandline.operate.drafts import draft  # noqa: PLC0415  # as above

        _say_seen(draft.new_silver(name, reads, takes, sample, lake))
        return
    source = scaffold.bronze(reads, takes)
    facts = {"source": source.name, "takes": scaffold.takes_line(takes, in_sql=in_sql)}
    facts |= scaffold.of_kind(source, takes)
    _say((scaffold.write_sql if in_sql else scaffold.write)(Layer.SILVER, name, facts))


@new.command("dimension")
def new_dimension(
    name: NameArgument,
    reads: Annotated[
        str, typer.Option(help="The silver table with the changes, such as silver.price_changes.")
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="What the intervals are of, such as device_id; chosen where one column can be meant.",
        ),
    ] = None,
) -> None:
    r"""Keep what held when: validity intervals of a silver table of changes, for joins as of a time.

    Writes the module silver/NAME.py, with `as_of` for the tables above, and its test.

    \b
    strandline new dimension devices --reads silver.device_inventory --by device_id
    """
    from strandline.operate.drafts import draft  # noqa: PLC0415  # the module of the table is loaded for it

    _say(draft.write(name, reads, by or []))


@new.command("gold")
def new_gold(name: NameArgument, reads: ReadsOption, in_sql: SqlOption = False) -> None:
    r"""Answer a question from a silver or gold table: writes the module gold/NAME.py and its test.

    \b
    strandline new gold orders_10m --reads silver.orders
    strandline new gold orders_10m --sql --reads silver.orders
    """
    source = scaffold.source(reads, {Layer.SILVER, Layer.GOLD})
    facts = {
        "source": source.name,
        "layer": source.layer.value,
        "key": source.key[0],
        "event_at": str(source.event_at),
        "kind": "Recomputed" if source.replaces_rows else "Windowed",
    }
    _say((scaffold.write_sql if in_sql else scaffold.write)(Layer.GOLD, name, facts))


@new.command("alerts")
def new_alerts(
    name: Annotated[str, typer.Argument(help="Name of the rule: small_letters_and_digits.")],
    reads: Annotated[
        str, typer.Option(help="The silver table that it looks at, such as silver.orders.")
    ],
) -> None:
    r"""Raise alerts on a silver table: writes alerts.py, the rule rules/NAME.yml with examples, and the test of all rules.

    A project that declares alerts gets the rule alone.

    \b
    strandline new alerts large_order --reads silver.orders
    """
    from strandline.operate.alerts import draft  # noqa: PLC0415  # the other drafts need nothing of alerts

    for path in draft.write(name, reads):
        say(f"wrote {path}")
    say("")
    say("Fill in the lines with FILL IN; `strandline rules test` runs the examples.")
    page = "infra/docs/alert_rules.md"
    say(f"{installation.page(page) if project() else page} explains rules.")
    if not installation.is_installed("alerts"):
        say("")
        say(f"Rules need the extra alerts: {installation.command('alerts')}")
        say("Add it to the extras of strandline in pyproject.toml as well.")


def _say_seen(drafted: "Drafted") -> None:
    for path in drafted.paths:
        say(f"wrote {path}")
    say("")
    for sentence in drafted.seen:
        say(sentence)
    say("")
    say("try next:")
    for line in drafted.next:
        say(f"  {line}")


def _say(written: Iterable[Path]) -> None:
    for path in written:
        say(f"wrote {path}")
    say("")
    say("Fill in the lines with FILL IN; `strandline tables` shows the table already.")
    fields = "infra/docs/table_fields.md"
    say(f"{installation.page(fields) if project() else fields} explains the fields of a table.")


# ``init``: make a project of one's own, outside of the engine's repository; it passes its own ``make test``.


def _register_init(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("init")(init)


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder that does not exist or is empty; its name is the project's.",
        ),
    ],
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Write the example: tables, models, rules and play."),
    ] = False,
) -> None:
    r"""Make a project of one's own: a topic, a silver and a gold table with their tests, a Makefile and a CI file.

    With --demo the tables are those of the example, a fleet of devices and its network, which `strandline demo` in
    that folder then fills; they import the public interface alone, and are yours to change.

    \b
    strandline init shop
    strandline init --demo fleet
    """
    name = make(folder, of_example=demo)
    say(f"made the project {name} in {folder.absolute()}")
    say("")
    say("try next:")
    say(f"  cd {folder}")
    if installation.is_of_uv():
        # The environment that runs this may be one of uv's for a moment, as `uvx` makes them; the project gets its own.
        for line in ("strandline setup", "strandline demo", "pytest"):
            say(f"  {installation.RUN}{line}")
        return
    # The environment that runs this has the engine already.
    programs = Path(sys.prefix) / "bin"
    say(f"  make test BIN={programs}")
    # By make, which installs the extras that the project uses.
    say(f"  make demo BIN={programs}")


def _register_doctor(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(
    lake: LakeOption = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="<name>", help="The profile of strandline.toml that is tried."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Check everything that Strandline needs and print what is missing.

    Tries each thing that the settings name: lake, Kafka, database, cluster with its packages, schema registry, webhook,
    rules, receiver of lineage.

    \b
    strandline doctor
    strandline doctor --profile prod
    strandline doctor --json
    """
    if profile is not None:
        choose_profile(profile)
    # Not imported above: what it tries takes half a second to import, and no other verb here tries anything.
    from strandline.operate.doctor import checks  # noqa: PLC0415  # as above

    found = checks(lake)
    if as_json:
        emit([asdict(check) for check in found])
    else:
        for check in found:
            say(f"{'ok     ' if check.ok else 'missing'}  {check.name}: {check.detail}")
            if not check.ok:
                say(f"         hint: {check.hint}")
    broken = [check.name for check in found if not check.ok]
    if broken:
        raise DefinitionError(
            f"not in order: {', '.join(broken)}", hint="follow the hints above, top down."
        )


# ``setup``: fetch what the engine needs beside its packages.


def _register_setup(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("setup")(setup)


def setup(
    lean: Annotated[
        bool,
        typer.Option(
            "--lean", help="Leave out the archive of Java's classes, which makes starts faster."
        ),
    ] = False,
) -> None:
    r"""Fetch Java and jars where they are missing, and the extras that the project uses; nothing to do: at once.

    Java 17 or 21 of the machine is used if there is one. What is fetched lies in the virtual environment, or outside of
    one in your cache folder. A clone of the engine is set up by `make setup`, which makes its environment as well.

    \b
    strandline setup
    strandline setup --lean
    """
    from strandline.operate.doctor import used  # noqa: PLC0415  # as above

    try:
        steps.set_up(here() if is_clone() else Installed(lean=lean, extras=tuple(used())))
    except SetupError as error:
        raise TransientError(
            error.message + (f"\n\n{error.tail}" if error.tail else ""), hint=error.hint
        ) from error
    say("set-up is complete")


def _register_explain(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("explain")(explain)


def explain(
    verb: Annotated[str, typer.Argument(metavar="VERB", help="Such as backfill.")],
    own: Annotated[
        str | None,
        typer.Argument(metavar="WORD", help="With --schema a verb of its own, such as list."),
    ] = None,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON schema of what it answers with --json."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Say what a verb reads, what it changes and its exit codes, before it is typed.

    \b
    strandline explain backfill
    strandline explain quarantine --json
    strandline explain quarantine list --schema
    """
    if verb not in main.VERBS:
        near = get_close_matches(verb, main.here(), 1)
        raise DefinitionError(
            f"there is no verb {verb!r}",
            hint=f"did you mean {near[0]!r}?" if near else "`strandline --help` lists the verbs.",
            verb=verb,
        )
    if schema:
        emit(_schema(f"{verb} {own}" if own else verb))
        return
    if own:
        raise DefinitionError(
            f"a verb is explained whole, and {own!r} is a part of {verb}",
            hint=f"`strandline explain {verb}`, or `strandline {verb} {own} --help`.",
        )
    about, endings = ABOUT[verb], list(own_endings(verb))
    if as_json:
        facts = {"verb": verb, "line": about.line, "reads": about.reads, "changes": about.changes}
        emit({**facts, "extra": about.extra or None, "exits": CODES, "of_its_own": endings})
        return
    answers = [name for name in ANSWERS if name.partition(" ")[0] == verb]
    say(
        "\n".join(
            [
                f"strandline {verb}: {about.line}",
                "",
                f"reads    {about.reads}",
                f"changes  {about.changes}",
                *([f"needs    {_needs(about.extra)}"] if about.extra else []),
                "",
                "exit code",
                *(f"  {code:<5}{meaning}" for code, meaning in CODES.items()),
                *(["", "of its own", *(f"  {each}" for each in endings)] if endings else []),
                "",
                f"`strandline {verb} --help` has its options and examples.",
                *(
                    f"`strandline explain {name} --schema` says what it answers with --json."
                    for name in answers
                ),
            ]
        )
    )


def _schema(name: str) -> Schema:
    """Return the schema of what a verb answers.

    Raises:
        DefinitionError: It answers nothing for programs.
    """
    if name in ANSWERS:
        return schema_of(name)
    parts = [each for each in ANSWERS if each.startswith(f"{name.partition(' ')[0]} ")]
    raise DefinitionError(
        f"`strandline {name}` has no --json",
        hint=f"of its own verbs {', '.join(parts)} have."
        if parts
        else "infra/docs/json.md lists the verbs that have.",
        verb=name,
    )


def _needs(extra: str) -> str:
    has = "installed" if installation.is_installed(extra) else installation.command(extra)
    return f"the extra {extra}: {has}"


def own_endings(verb: str) -> Iterator[str]:
    """Yield the sentences of a verb's help, and of its own verbs, that say with which code it ends."""
    for text in _helps(verb):
        sentences = re.split(r"(?<=\.)\s+", " ".join(text.split()))
        yield from (each for each in sentences if re.search(r"\bexits?\b", each, re.IGNORECASE))


def _helps(verb: str) -> Iterator[str]:
    app = typer.Typer()
    (module,) = main.modules(verb)
    main.register(module, app)
    groups = [each for each in app.registered_groups if each.name == verb and each.typer_instance]
    commands = [each for each in app.registered_commands if each.name == verb]
    for group in groups:
        commands += group.typer_instance.registered_commands if group.typer_instance else []
    yield from (inspect.getdoc(each.callback) or "" for each in commands)


# ``lint``: mistakes that the project's files show without being run.


def lint(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE", help="Such as shop/gold/totals.py; all of the project when absent."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--schemas",
            metavar="FOLDER",
            help="Write the JSON schemas of strandline.toml and of rules there, for editors.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Find mistakes in tables, rules and strandline.toml without running them; exits with 4 where there are some.

    Texts are read and nothing is imported, so it takes less than a second, and pre-commit may run it (.pre-commit-hooks.yaml).
    A line that ends with "# lint: ok" is passed over.

    \b
    strandline lint
    strandline lint shop/gold/totals.py strandline.toml
    strandline lint --schemas .vscode
    """
    # Not imported above: a hook of git has it without this module (jobs/strandline/cli/__main__.py).
    from strandline.operate import lint as texts  # noqa: PLC0415  # as above

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, schema in texts.schemas().items():
            (folder / name).write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
            say(f"wrote {folder / name}")
        return
    found = texts.lint(project(), files)
    if as_json:
        emit([asdict(each) for each in found])
    for each in [] if as_json else found:
        say(str(each))
    if found:
        raise SystemExit(DataError.exit_code)


# ``contract``: what readers of a table are promised, in the Open Data Contract Standard.

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="Such as silver.orders.")]

CONTRACT_HELP = """Write what readers of a table are promised, draft a table from such a contract, and see what a change breaks.

\b
strandline contract export silver.orders --release
strandline contract diff
strandline contract import orders.odcs.yaml --reads bronze.orders
"""

contract = typer.Typer(help=CONTRACT_HELP, no_args_is_help=True, rich_markup_mode=None)


def _register_contract(app: typer.Typer) -> None:
    """Add the verb with its three kinds."""
    app.add_typer(contract, name="contract")


@contract.command("export")
def export(
    table: TableArgument,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write it there; shown when absent.")
    ] = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release", help="Write it to contracts/TABLE.odcs.yaml, for readers to rely on."
        ),
    ] = False,
) -> None:
    r"""Write the contract of a table from its declaration: columns, key, rules, references, owner, retention, masks.

    \b
    strandline contract export silver.orders
    strandline contract export silver.orders --to orders.odcs.yaml
    strandline contract export silver.orders --release
    """
    from strandline.operate.drafts import contract as work  # noqa: PLC0415  # with Spark, which finds the columns

    text, file = work.export(table, to, release=release)
    say(f"wrote {file}" if file else text.rstrip("\n"))


@contract.command("diff")
def diff(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Each whose contract was released when absent."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="A contract; the one released when absent."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compare tables with the contracts that were released; exits 2 where a change breaks one.

    Breaking is what readers may fail by: a column that goes or gets another type, a value that may be missing, a check
    that is asked no more. What is added is harmless.

    \b
    strandline contract diff
    strandline contract diff silver.orders --against orders.odcs.yaml
    """
    from strandline.operate.drafts import contract as work  # noqa: PLC0415  # as above

    found = work.changes(table, against)
    if as_json:
        emit([asdict(each) for each in found])
    else:
        for each in sorted(found, key=lambda change: not change.is_breaking):
            say(f"{'breaking' if each.is_breaking else 'harmless'}  {each.table}: {each.says}")
        if not found:
            say("nothing has changed that was promised")
    work.refuse_breaking(found)


@contract.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The contract, a YAML file.")],
    reads: Annotated[
        str, typer.Option(help="The bronze table with the records, such as bronze.orders.")
    ],
    takes: Annotated[
        str, typer.Option(metavar="KIND", help="The kind of records, where there are several.")
    ] = "",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the table; the contract's when absent.")
    ] = None,
) -> None:
    r"""Draft a silver table from a contract: its columns are fields, what it asks of a row are rules.

    \b
    strandline contract import orders.odcs.yaml --reads bronze.orders
    """
    from strandline.operate.drafts import contract_import  # noqa: PLC0415  # as above

    for path in contract_import.write(file, reads, takes, name):
        say(f"wrote {path}")
    say("")
    say(
        "Fill in the lines with FILL IN; what the contract asks and no rule can say is named in them."
    )
