"""``produce``: send play events, with the options that the play of the project has."""

import inspect
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, progress, say
from strandline.core.errors import DefinitionError
from strandline.engine.kafka.send_records import Sent
from strandline.engine.runtime import clock
from strandline.operate import lakes, play
from strandline.operate.play import Play, PlayOption
from strandline.operate.send_play import Asked, Truth, send
from strandline.operate.words import seconds

EventsOption = Annotated[
    int, typer.Option(min=1, help="Records to send, duplicates and dirty ones included.")
]
UntilOption = Annotated[
    datetime | None, typer.Option(help="Last arrival, UTC; the start of this hour when absent.")
]
RateOption = Annotated[
    float | None,
    typer.Option(min=0.001, help="Events a second; as fast as possible when absent."),
]
TruthOption = Annotated[
    Path | None, typer.Option(help="File for the expected counts of each table.")
]
MakeTopicsOption = Annotated[
    bool,
    typer.Option(
        "--make-topics",
        help="Create topics that a cluster of STRANDLINE_KAFKA lacks; on the lake's own broker that is done anyhow.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb, with the options of the play; where that cannot be read, whatever is typed is answered by the reason."""
    try:
        found = play.found()
    except DefinitionError as error:
        lenient = {"ignore_unknown_options": True, "allow_extra_args": True}
        app.command("produce", context_settings=lenient)(_refused(error))
        return
    app.command("produce")(_verb(found))


def produce(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    events: EventsOption = 100_000,
    until: UntilOption = None,
    rate: RateOption = None,
    truth: TruthOption = None,
    make_topics: MakeTopicsOption = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    **options: object,
) -> None:
    r"""Send the project's play events to its topics, and print the counts that its tables must have of them.

    The events are those of `play.py` in the project's package, which has the options between --rate and --truth. A topic that
    a table has read and that was deleted is never made anew.

    \b
    strandline produce --events 500000 --truth truth.json
    strandline produce --rate 200 --events 12000
    """
    found, where = lakes.configured(lake)
    address = lakes.demanded_address(found, where)
    asked = Asked(
        events=events,
        until=_utc(until) or clock.now().replace(minute=0, second=0, microsecond=0),
        rate=rate,
        options={name: _given(value) for name, value in options.items()},
        truth=truth is not None,
        makes_topics=make_topics or found.kafka is None,
    )
    _refuse_unwritable(truth)
    with progress("events sent", events) as advance:
        sent, expected = send(play.found(), asked, where, address, found.kafka_options, advance)
    if truth is not None:
        truth.write_text(json.dumps(expected.as_dict(), indent=2) + "\n")
    if as_json:
        emit({"events": sent.events, "seconds": sent.seconds, **expected.as_dict()})
        return
    _print(sent, expected, truth)


def _verb(found: Play) -> Callable[..., None]:
    """Return the verb as typer wants it: a function with an argument for each option."""

    def verb(**given: object) -> None:
        produce(**given)  # type: ignore[arg-type]  # typer has converted each

    own = list(inspect.signature(produce).parameters.values())
    common = [each for each in own if each.kind is not inspect.Parameter.VAR_KEYWORD]
    at = next(number for number, each in enumerate(common) if each.name == "truth")
    arguments = [*common[:at], *map(_argument, found.options), *common[at:]]
    verb.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]  # what inspect asks for first
    verb.__annotations__ = {each.name: each.annotation for each in arguments}
    verb.__doc__ = produce.__doc__
    return verb


def _argument(option: PlayOption) -> inspect.Parameter:
    is_number, is_span = option.kind in {int, float}, option.kind is timedelta
    shown = typer.Option(
        help=option.about,
        min=option.low if is_number else None,
        max=option.high if is_number else None,
        parser=_span if is_span else None,
        metavar="<time>" if is_span else None,
    )
    kind = option.kind if option.default is not None else option.kind | None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=option.default,
        annotation=Annotated[kind, shown],
    )


def _refused(error: DefinitionError) -> Callable[[], None]:
    def verb() -> None:
        raise error

    verb.__doc__ = produce.__doc__
    return verb


def _span(text: str | timedelta) -> timedelta:
    return text if isinstance(text, timedelta) else timedelta(seconds=seconds(text))


def _print(sent: Sent, expected: Truth, truth: Path | None) -> None:
    speed = sent.events / sent.seconds if sent.seconds else 0.0
    say(f"{sent.events:,} events sent in {sent.seconds:.1f} s ({speed:,.0f} a second)")
    for table, counts in (expected.tables or {}).items():
        held = sum(counts.quarantined.values())
        say(
            f"{table} must get {counts.good:,} good, {counts.duplicates:,} duplicates, {held:,} held"
        )
    if truth is not None:
        say(f"all expected counts are in {truth}")


def _given(value: object) -> object:
    return _utc(value) if isinstance(value, datetime) else value


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=clock.now().tzinfo) if moment else None


def _refuse_unwritable(truth: Path | None) -> None:
    if truth is None:
        return
    try:
        truth.touch()
    except OSError as error:
        raise DefinitionError(
            f"the expected counts cannot be written to {truth}: {error.strerror}",
            hint="choose a file in a folder that exists and is yours.",
        ) from error
