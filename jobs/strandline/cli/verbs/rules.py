"""``rules``: the alert rules: which there are, whether they do what their examples say, and what they say of an event."""

import importlib
from pathlib import Path
from typing import Annotated, Any

import typer

from strandline.cli.place import SINCE, UNTIL, JsonOption, LakeOption

FolderArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help="Sigma rules; the project's when absent."),
]
HELP = """List, test, lint, explain, backtest and promote alert rules: Sigma rules of a folder, or the project's.

\b
strandline rules list
strandline rules test my-rules
strandline rules lint my-rules
strandline rules explain --event process-events/0/17
strandline rules backtest my-rules --since 2026-11-01 --until 2026-12-01
strandline rules undo
"""

rules = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(rules, name="rules")


@rules.command("list")
def list_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    folder: FolderArgument = None,
    attack: Annotated[
        bool, typer.Option("--attack", help="Count the rules of each MITRE ATT&CK tag instead.")
    ] = False,
    never: Annotated[
        bool, typer.Option("--never", help="Only those that raised nothing in the last backtest.")
    ] = False,
    slow: Annotated[
        bool, typer.Option("--slow", help="Only those that the last backtest --cost found slow.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""List the rules that run: severity, table, owner, version and how many examples each has.

    The version is a hash of the meaning; other words about a rule leave it as it is. After a backtest the list has the
    alerts that each would have raised, unless its version is another by now.

    \b
    strandline rules list
    strandline rules list my-rules --json
    strandline rules list --attack
    strandline rules list my-rules --never
    strandline rules list my-rules --slow
    """
    work = importlib.import_module("strandline.cli.verbs.rule_book")
    only = work.Only.SLOW if slow else work.Only.NEVER if never else None
    work.listed(folder, attack=attack, only=only, lake=lake, as_json=as_json)


@rules.command("test")
def run_examples(
    folder: FolderArgument = None, lake: LakeOption = None, as_json: JsonOption = False
) -> None:
    r"""Run the examples of every rule in Spark, through the plan that raises alerts; needs no broker and no data.

    The exit code is 2 when a rule stays quiet on an event on which it must fire, or fires where it must not.

    \b
    strandline rules test
    strandline rules test my-rules
    """
    _work().tested(folder, lake, as_json=as_json)


@rules.command("lint")
def lint(folder: FolderArgument = None, as_json: JsonOption = False) -> None:
    r"""List what does not run, with the reason, and what a rule lacks; the exit code is 2 when a rule does not run.

    A broken file never stops the others. Each regular expression is tried on hostile texts, for a second at most.

    \b
    strandline rules lint
    strandline rules lint my-rules --json
    """
    _work().linted(folder, as_json=as_json)


@rules.command("explain")
def explain(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    file: Annotated[
        Path | None, typer.Argument(metavar="EVENT.json", help="An event as a JSON object.")
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(metavar="TOPIC/PARTITION/OFFSET", help="An event of the lake instead."),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="The table of the file's event; the one with its fields when absent."),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--rules", metavar="FOLDER", help="As for the other subcommands.")
    ] = None,
    near: Annotated[int, typer.Option(min=0, help="Near misses to show.")] = 5,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show which rules fire on an event, and for near misses the clauses that fail.

    No value of the event is printed, so the answer has nothing that is masked elsewhere.

    \b
    strandline rules explain event.json
    strandline rules explain --event process-events/0/17 --near 10
    strandline rules explain event.json --table silver.process_events --rules my-rules
    """
    _work().explained((file, event), table, folder, near=near, lake=lake, as_json=as_json)


@rules.command("backtest")
def backtest(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    named: Annotated[
        str | None,
        typer.Argument(
            metavar="RULE|FOLDER",
            help="A folder, a file, or a rule of the project, all of which are taken when absent.",
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(help=SINCE)] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION|FOLDER|live",
            help="Compare with the rules of another folder or file, or of a commit of Git: HEAD~1; or, with the word "
            "live, with the alerts that were raised.",
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the page; in the lake when absent."),
    ] = None,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="Find also which rules are slow; `rules list --slow` has them."
        ),
    ] = False,
    promote: Annotated[
        bool,
        typer.Option(
            "--promote", help="Make the rules live unless an example or a figure is against it."
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show what rules would have raised: how many alerts a day, on whom, samples, and what it cost.

    Rules run over silver, all rules about a table in one Spark job, by the plan that raises alerts. A range that a
    stream may still change is refused; without a range it is all that is closed. --against shows the alerts that a
    change of rules adds, loses, and moves to another version; --against live proves that the alerts in gold.alerts
    are those of history, alert for alert. Sensitive columns are masked.

    --promote makes the rules live that were tried: their examples must be right, and none may take more than 100 µs
    of CPU an event. `strandline alerts` without a folder takes them over within seconds.

    \b
    strandline rules backtest
    strandline rules backtest my-rules --since 2026-11-01 --until 2026-12-01
    strandline rules backtest my-rules --against HEAD~1 --to backtest.html
    strandline rules backtest --against live
    strandline rules backtest my-rules/new_rule.yml --promote
    """
    words = {
        "rules": named,
        "since": since,
        "until": until,
        "against": against,
        "to": to,
        "cost": cost,
        "promote": promote,
    }
    work = importlib.import_module("strandline.cli.verbs.rule_book")
    work.backtested(work.Words(**words), lake, as_json=as_json)


@rules.command("undo")
def undo(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""Take the last promotion back: the rules that were live before it are live again.

    \b
    strandline rules undo
    """
    _work().undone(lake, as_json=as_json)


def _work() -> Any:  # noqa: ANN401  # a module
    """Import what the subcommands do; pySigma takes half a second, and the help of all verbs needs none of it."""
    return importlib.import_module("strandline.cli.verbs.rule_book")
