"""``models``: the models of tables: which there are, what each version was made of, which holds from when on."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import SINCE, UNTIL, JsonOption, LakeOption, emit, note, say, show
from strandline.core.model import Model
from strandline.engine.lake import shelves
from strandline.engine.lake.shelves import DECIDED, Decision
from strandline.engine.repair.closed_range import moment, typed
from strandline.operate import decisions
from strandline.project import package

if TYPE_CHECKING:
    from strandline.engine.learning.promote_model import Desk

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
    listed(lake, as_json=as_json)


@models.command("show")
def show_(
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
    shown(name, version, lake, as_json=as_json)


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
    trained(name, (since, until), lake, as_json=as_json)


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
    evaluated(name, version, (since, until), lake, as_json=as_json)


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
    promoted(name, version, since, lake, as_json=as_json)


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
    rescored(name, version, since, lake, as_json=as_json)


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
    rolled_back(name, since, lake, as_json=as_json)


# What the subcommands of ``strandline models`` do.

COLUMNS = (
    "model",
    "version",
    "trained on",
    "rows",
    "precision",
    "recall",
    "flagged",
    "check",
    "holds",
)


def listed(lake: str | None, *, as_json: bool) -> None:
    """List models and their versions."""
    _, where = screen.existing(lake)
    rows = []
    for model in catalog.models():
        decided = shelves.terms(where, model.name).every
        known = shelves.versions(where, model.name)
        none = {**dict.fromkeys(COLUMNS), "model": model.name, "check": "no version yet"}
        rows += [_row(model, words, decided) for words in known] or [none]
    if as_json:
        emit(rows)
        return
    if not rows:
        say(f"no model yet; one is a module in {package()}.models that ends with MODEL = Model(…)")
        return
    show(None, COLUMNS, [tuple(row.values()) for row in rows])


def shown(name: str, version: str | None, lake: str | None, *, as_json: bool) -> None:
    """Show the decisions about a model, or the certificate of a version."""
    _, where = screen.existing(lake)
    model = catalog.model(name)
    if version is not None:
        words = shelves.version(where, name, decisions.version_of(where, name, version))
        if as_json:
            emit(words)
            return
        _show_certificate(model, words)
        return
    lines = list(shelves.history(where, name))
    if as_json:
        emit(
            {
                "terms": [_words(each) for each in shelves.terms(where, name).every],
                "history": lines,
            }
        )
        return
    say(f"{name} scores {model.of.id}: {model.about}")
    show(
        "terms: of those that hold at a moment the last counts",
        ("from", "version", "what", "decided", "by"),
        [
            (each.since, each.version or "none", each.what, each.at, each.by)
            for each in shelves.terms(where, name).every
        ],
    )
    refused = [line for line in lines if line["what"] not in DECIDED]
    if refused:
        show(
            "not in force",
            ("at", "version", "what", "because"),
            [
                (
                    line.get("at"),
                    line.get("version"),
                    line["what"],
                    "; ".join(line.get("because", ())),
                )
                for line in refused
            ],
        )


def trained(name: str, ends: tuple[str, str], lake: str | None, *, as_json: bool) -> None:
    """Train a version."""
    found, where = screen.existing(lake, writes=True)
    model, span = catalog.model(name), typed(*ends)
    words = decisions.trained(model, span, found, where, note)
    if as_json:
        emit(words)
        return
    _show_certificate(model, words)
    if not model.against(words["certificate"]):
        say(f"promote it: strandline models promote {name} {words['version']}")


def evaluated(  # each is an option of the command line
    name: str, version: str, ends: tuple[str, str], lake: str | None, *, as_json: bool
) -> None:
    """Evaluate a version on a range."""
    found, where = screen.existing(lake, writes=True)
    model, span = catalog.model(name), typed(*ends)
    wanted = decisions.version_of(where, name, version)
    figures = decisions.evaluated(model, wanted, span, found, where, note)
    if as_json:
        emit({"model": name, "version": wanted, **figures, "against": model.complaints(figures)})
        return
    show(f"{name} {wanted}", tuple(figures), [tuple(map(_figure, figures.values()))])
    for each in model.complaints(figures):
        say(f"the check is against it: {each}")


def promoted(
    name: str, version: str, since: str | None, lake: str | None, *, as_json: bool
) -> None:
    """Promote a version."""
    _, where = screen.existing(lake, writes=True)
    desk = decisions.desk_of(name, where)
    done = desk.promote(decisions.version_of(where, name, version), _moment(since))
    _say(desk, done, as_json=as_json)


def rescored(name: str, version: str, since: str, lake: str | None, *, as_json: bool) -> None:
    """Let a version score history."""
    _, where = screen.existing(lake, writes=True)
    desk = decisions.desk_of(name, where)
    done = desk.rescore(decisions.version_of(where, name, version), moment(since, "--from"))
    table = desk.model.of.id
    _say(desk, done, as_json=as_json)
    if not as_json:
        say(f"compute the rows: strandline rebuild {table}; strandline promote {table}")


def rolled_back(name: str, since: str | None, lake: str | None, *, as_json: bool) -> None:
    """Roll the last promotion back."""
    _, where = screen.existing(lake, writes=True)
    desk = decisions.desk_of(name, where)
    _say(desk, desk.roll_back(_moment(since)), as_json=as_json)


def _say(desk: "Desk", done: Decision, *, as_json: bool) -> None:
    if as_json:
        emit({"model": desk.model.name, **_words(done)})
        return
    which = f"version {done.version}" if done.version else "no version"
    say(f"{done.what}: {which} scores {desk.model.of.id} from {done.since} on")


def _moment(text: str | None) -> datetime | None:
    return moment(text, "--from") if text else None


def _row(
    model: Model, words: Mapping[str, Any], decided: tuple[Decision, ...]
) -> dict[str, object]:
    made = words["certificate"]
    metrics = made["metrics"]
    holds = [each.since for each in decided if each.version == words["version"]]
    figures = {
        "model": model.name,
        "version": words["version"],
        "trained on": f"{made['since'][:16]} to {made['held_out_from'][:16]}",
        "rows": metrics["rows"],
        "precision": _figure(metrics.get("precision")),
        "recall": _figure(metrics.get("recall")),
        "flagged": _figure(metrics["flagged"]),
        "check": "fails" if model.against(made) else "passes",
        "holds": ", ".join(f"from {each[:19]}" for each in holds),
    }
    return {name: figures[name] for name in COLUMNS}


def _show_certificate(model: Model, words: Mapping[str, Any]) -> None:
    made = words["certificate"]
    say(f"version {words['version']} of {model.name}, threshold {words['threshold']}")
    say(
        f"trained on {made['table']} version {made['versions'][made['table']]:,}, "
        f"from {made['since']} to {made['held_out_from']}, by code {made['code']}, at {made['at']}"
    )
    metrics = made["metrics"]
    title = f"held out: from {made['held_out_from']} to {made['until']}"
    show(title, tuple(metrics), [tuple(map(_figure, metrics.values()))])
    for each in model.against(made):
        say(f"the check is against it: {each}")


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def _words(decision: Decision) -> dict[str, object]:
    return {
        "what": decision.what,
        "version": decision.version,
        "from": decision.since,
        "at": decision.at,
        "by": decision.by,
    }
