"""``models``: the models of tables: which there are, what each version was made of, which holds from when on."""

import importlib
from typing import Annotated, Any

import typer

from strandline.cli.screen import SINCE, UNTIL, JsonOption, LakeOption

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Such as unusual_traffic.")]
VersionArgument = Annotated[
    str,
    typer.Argument(metavar="VERSION", help="As `models list` shows it; its first digits suffice."),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="<moment>",
        help="First moment of event time, in UTC; as soon as is safe when absent.",
    ),
]
HELP = """Train, evaluate, promote and roll back models: each row of their table has the score of the version of its time.

\b
strandline models list
strandline models train unusual_traffic --since 2026-11-01 --until 2026-11-08
strandline models show unusual_traffic 425567f825ed
strandline models evaluate unusual_traffic 425567f825ed --since 2026-11-08 --until 2026-11-09
strandline models promote unusual_traffic 425567f825ed
strandline models rescore unusual_traffic 425567f825ed --from 2026-01-01
strandline models rollback unusual_traffic
"""

models = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the verb and its subcommands."""
    app.add_typer(models, name="models")


@models.command("list")
def list_(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    r"""List the models and their versions: what each was trained on, its metrics, and from when on it holds.

    \b
    strandline models list
    strandline models list --json
    """
    _work().listed(lake, as_json=as_json)


@models.command("show")
def show(
    name: NameArgument,
    version: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", help="The version whose certificate is shown."),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show what was decided about a model, the refused promotions included; or the certificate of a version.

    A certificate has the range of event time, the table's version, the hash of the code, the metrics on the time that
    was held out, and how features and scores were distributed.

    \b
    strandline models show unusual_traffic
    strandline models show unusual_traffic 425567f825ed --json
    """
    _work().shown(name, version, lake, as_json=as_json)


@models.command("train")
def train(
    name: NameArgument,
    since: Annotated[str, typer.Option(help=SINCE)],
    until: Annotated[str, typer.Option(help=UNTIL)],
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Train a version on a range of its table's rows; nothing is promoted.

    The last part of the range is held out, and the metrics are those of that part.

    \b
    strandline models train unusual_traffic --since 2026-11-01 --until 2026-11-08
    """
    _work().trained(name, (since, until), lake, as_json=as_json)


@models.command("evaluate")
def evaluate(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    name: NameArgument,
    version: VersionArgument,
    since: Annotated[str, typer.Option(help=SINCE)],
    until: Annotated[str, typer.Option(help=UNTIL)],
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show how a version does on a range of its table's rows; nothing is written.

    \b
    strandline models evaluate unusual_traffic 425567f825ed --since 2026-11-08 --until 2026-11-09
    """
    _work().evaluated(name, version, (since, until), lake, as_json=as_json)


@models.command("promote")
def promote(
    name: NameArgument,
    version: VersionArgument,
    since: FromOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Let a version score the rows of event time from a moment on, unless the model's check is against it.

    Streams and `strandline alerts` follow without a restart. Rows that are there keep their score, so a moment in the
    past is refused where the table has rows of it, or a stream that runs.

    \b
    strandline models promote unusual_traffic 425567f825ed
    strandline models promote unusual_traffic 425567f825ed --from 2026-11-09
    """
    _work().promoted(name, version, since, lake, as_json=as_json)


@models.command("rescore")
def rescore(
    name: NameArgument,
    version: VersionArgument,
    since: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="<moment>",
            help="First moment of event time, in UTC, before the first promotion's.",
        ),
    ],
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Let a version score history: the rows from before the first promotion, which have no score.

    What was scored keeps its score, and streams go on. A rebuild of the table then computes the rows; of history no
    alerts are raised.

    \b
    strandline models rescore unusual_traffic 425567f825ed --from 2026-01-01
    strandline rebuild gold.traffic_scores
    strandline promote gold.traffic_scores
    """
    _work().rescored(name, version, since, lake, as_json=as_json)


@models.command("rollback")
def rollback(
    name: NameArgument,
    since: FromOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Let the version before the last promotion hold again from a moment on; none before the first.

    What the version has scored keeps its score.

    \b
    strandline models rollback unusual_traffic
    """
    _work().rolled_back(name, since, lake, as_json=as_json)


def _work() -> Any:  # noqa: ANN401  # a module
    """Import what the subcommands do; the help of all verbs needs none of it."""
    return importlib.import_module("strandline.cli.verbs.model_book")
