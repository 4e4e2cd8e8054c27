"""What each verb answers with ``--json``, as a JSON schema: declared once, printed by ``strandline explain VERB --schema``.

An answer that is made of a dataclass is declared by its name: its fields, their types and what its docstring says of them are the
schema, so neither can be otherwise than what is printed. What is put together by a verb itself is written out here. The tests of the
command line judge each answer that any of them asks for by its schema (tests/cli/inside.py).

A type is a type of Python; ``[each]`` is a list, ``{name: type}`` an object with these fields and no others, where a name that ends
with ``?`` may be absent. What JSON has not is a text: a moment, a length of time, a decimal; and so is a number that is none (NaN).
"""

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

DRAFT = "https:/" + "/json-schema.org/draft/2020-12/schema"
"""The release of JSON Schema; in two parts, because this module leads to no address."""

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Of:
    """A dataclass, by module and name; it is imported where its schema is asked for.

    Args:
        name: ``module:Class``, below the package of the engine where the module begins with a point.
        more: What a verb adds to its fields, or has in the place of some.
        less: The fields that it leaves out.
    """

    name: str
    more: Mapping[str, Any] | None = None
    less: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Open:
    """An object with these fields, and others of which nothing is promised."""

    known: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several answers, by what was typed."""

    each: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a verb answers.

    Args:
        says: It in a sentence.
        shape: Its type.
        in_lines: Whether it is one record a line, for as long as the verb runs.
    """

    says: str
    shape: Any
    in_lines: bool = False


TEXT = str | None
COUNTS = dict[str, int]
RANGES = dict[str, tuple[int, int]]
ENTRY = Of(".engine.lake.log.ledger:Entry")
COMPARISON = Of(".engine.proof.compare:Comparison", more={"equal": bool})
MOMENT = {
    "moment": int | None,
    "name": TEXT,
    "until": TEXT,
    "at": str,
    "by": TEXT,
    "versions": COUNTS,
    "offsets": COUNTS,
    "behind": dict[str, str],
    "lost": dict[str, str],
}
SPENT = Of(
    ".engine.accounting.cost:Cost",
    more={"share": float, "price": float | None},
    less=("day",),
)
SPENT_ON_A_DAY = Of(".engine.accounting.cost:Cost", more={"share": float, "price": float | None})
BEAT = Open({"pid": int, "alive": bool, "at": str, "tables": Open({})})
"""What a program says of itself every few seconds; of its tables what each does."""
DECISION = {"what": str, "version": TEXT, "from": str, "at": str, "by": str}
PUBLICATION = {
    "name": str,
    "table": str,
    "target": str,
    "read": int,
    "accepted": int,
    "refused": int,
    "replayed": int,
    "lag": int | None,
    "away": TEXT,
    "at": str,
    "process": Either((Open({}), None)),
}
BYTES = Either(({"text": str}, {"hex": str}, None))
MOVED = {
    "table": str,
    "mode": str,
    "ends": RANGES,
    "offsets": COUNTS,
    "lost": RANGES,
    "retired": dict[str, str],
    "accepted": TEXT,
}
RUNS = [Of(".engine.flow.running:Report")]
LOGGED = Open({"time": str, "level": str, "event": str})
"""A line of a log."""
REFUSED = Open({"name": str, "key": str})
CATALOGS = [Of(".engine.publish.catalogs:Lag", more={"versions": int})]

ANSWERS: dict[str, Answer] = {
    # Run.
    "up": Answer(
        "Where Kafka is, and which topics were made or are missing.",
        Either(
            (
                {"address": str, "pid": int, "made": [str], "gone": [str]},
                {"address": str, "pid": None, "missing": [str]},
            )
        ),
    ),
    "down": Answer("Whether a broker was stopped.", {"stopped": bool}),
    "produce": Answer(
        "How many events were sent, and what the tables must have of them.",
        Open({"events": int, "seconds": float}),
    ),
    "run": Answer("What the batches of each table add up to.", RUNS),
    "stream": Answer("Its log.", LOGGED, in_lines=True),
    "resume": Answer("The process that streams.", {"pid": int}),
    "pause": Answer(
        "Whether a stream was stopped, and the shares that run on other hosts.",
        {"stopped": bool, "shares": [str]},
    ),
    "drain": Answer("What the batches of each table add up to.", RUNS),
    "restart": Answer("The process that streams.", {"pid": int}),
    "publish": Answer(
        "Its log; with --once how far each target is, with --refused the rows that one has refused.",
        Either((LOGGED, [PUBLICATION], [REFUSED])),
        in_lines=True,
    ),
    "catalog sync": Answer("How far each catalog is behind each table.", CATALOGS),
    "catalog status": Answer("How far each catalog is behind each table.", CATALOGS),
    "catalog drop": Answer(
        "What is shown no more.",
        [{"catalog": str, "table": str}],
    ),
    "import": Answer(
        "What was, or would be, imported.",
        {
            **dict.fromkeys(("files", "rows", "files_before", "rows_before"), int),
            "left_out": int,
            "brought": int,
            "since": TEXT,
            "until": TEXT,
            "not_followed": dict[str, str],
            "before_streams": bool,
            "dry_run": bool,
        },
    ),
    # Ask.
    "tables": Answer(
        "Each table, and each static table that one joins.",
        [
            {
                "table": str,
                "reads": str,
                "rows": int | None,
                "quarantined": int | None,
                "copies": TEXT,
                "version": int | None,
                "mode": str,
                "watermark": TEXT,
                "certificate": TEXT,
                "gate": TEXT,
            }
        ],
    ),
    "ledger": Answer(
        "The balance sheet of each table.",
        [
            Of(
                ".engine.accounting.balance_sheet:Balance",
                more={"balanced": bool, "retired?": str},
                less=("damage",),
            )
        ],
    ),
    "cost": Answer(
        "What each table took, on all days and on each, and what processes used; with --keys the heaviest keys of each table.",
        Either(
            (
                {
                    "since": str,
                    "until": str,
                    "prices": Of(".engine.accounting.cost:Prices", less=("currency",)),
                    "currency": str,
                    "tables": [SPENT],
                    "days": [SPENT_ON_A_DAY],
                    "processes": [
                        Of(
                            ".engine.accounting.process_lines:Process",
                            more={"unexplained": float, "idle": float},
                            less=("state",),
                        )
                    ],
                    "state": [
                        Of(".engine.accounting.process_lines:State", more={"table": str, "at": str})
                    ],
                },
                [Of(".engine.ask.heavy_keys:HeavyKeys")],
            )
        ),
    ),
    "moments": Answer("The moments that are noted or have a name.", [MOMENT]),
    "moments show": Answer("One moment.", MOMENT),
    "moments note": Answer("The moment that was noted.", MOMENT),
    "moments name": Answer("The moment that has the name.", MOMENT),
    "query": Answer(
        "The rows, by the names of their columns; what JSON has not is a text.", [Open({})]
    ),
    "why": Answer(
        "One verdict with its evidence; of several events one record a line.",
        Of(".engine.ask.locate:Finding", more={"event": str}),
    ),
    "who": Answer(
        "The orders, the newest first.",
        [Of(".engine.lake.order_log:Order", more={"state": str})],
    ),
    "diff": Answer(
        "How the table differs, and with --downstream those above it.",
        [Of(".engine.ask.diff:Difference")],
    ),
    "drift": Answer(
        "What records of each table have beside its declaration, with the edit.",
        [
            {
                "table": str,
                "looked_at": int,
                "why_not": TEXT,
                "on_new_field": str,
                "on_wrong_type": str,
                "fields": [
                    {
                        "field": str,
                        "what": str,
                        "declared": TEXT,
                        "kinds": COUNTS,
                        "since": str,
                        "share": float,
                        "example": TEXT,
                        "place": str,
                        "type": TEXT,
                        "left_to_do": TEXT,
                    }
                ],
                "more": int,
                "diff": TEXT,
            }
        ],
    ),
    "history": Answer(
        "The last batches of each table, with what is unusual of each.",
        [
            Of(
                ".engine.accounting.history_queries:Batch",
                more={"drift": [Of(".engine.accounting.history_queries:Mark", more={"said": str})]},
            )
        ],
    ),
    "report": Answer(
        "The report of the days, as the page shows it.", Of("strandline_quality.findings:Findings")
    ),
    "check": Answer(
        "What each table was found to be.",
        [Of(".engine.proof.compare:Audit", more={"believed": bool})],
    ),
    "verify": Answer("The certificates.", [Of(".engine.proof.verify:Certificate")]),
    "compare": Answer("How each table of the two lakes differs.", [COMPARISON]),
    # Repair.
    "backfill": Answer("The ledger entry of each table that was computed again.", [ENTRY]),
    "rewind": Answer(
        "What would be judged again, and which days.",
        Of(".engine.repair.closed_range:Rewind", more={"records": int}),
    ),
    "migrate": Answer(
        "What is asked of each table; with --go what was done, with --try what would come of it.",
        Either(
            (
                [Of(".engine.repair.migrate:Stage")],
                [Of(".operate.migrate:Done")],
                [Of(".engine.proof.trial_lakes:Tried")],
            )
        ),
    ),
    "rebuild": Answer(
        "How the rebuilt table differs from the live one.",
        [Of(".engine.proof.compare:Comparison")],
    ),
    "promote": Answer("The ledger entry.", ENTRY),
    "undo": Answer("The ledger entry.", ENTRY),
    "quarantine list": Answer(
        "The rows with each reason.",
        [Of(".engine.accounting.browse_held:Pile", more={"age_seconds": float | None})],
    ),
    "quarantine show": Answer(
        "Open rows: original bytes as text, or as hexadecimal digits.",
        [
            Of(
                ".engine.accounting.browse_held:Held",
                more={
                    "key": BYTES,
                    "payload": BYTES,
                    "headers": [{"name": str, "value": BYTES}],
                },
            )
        ],
    ),
    "quarantine replay": Answer(
        "What became of the rows, or would.", Of(".engine.repair.replay:Replayed")
    ),
    "quarantine discard": Answer(
        "How many rows were discarded, or are open again.",
        {"table": str, "rows": int, "undone": bool},
    ),
    "quarantine export": Answer(
        "The file, and how many rows it has.", {"table": str, "file": str, "rows": int}
    ),
    "gate": Answer(
        "The gates that are shut or were opened, and the tables that wait.",
        [Of(".engine.accounting.gate_files:Shut", more={"waiting": [str]})],
    ),
    "mend": Answer("The commits that were taken out.", [Of(".engine.service.set_aside:SetAside")]),
    "accept-loss": Answer(
        "The offsets that are recorded as lost.",
        {"table": str, "lost": dict[str, list[int]], "accepted": TEXT, "new": bool},
    ),
    # Operate.
    "status": Answer(
        "The programs of the lake; less where its store does not answer.",
        Either(
            (
                {
                    "lake": str,
                    "condition": {"well": bool, "says": str},
                    "kafka": TEXT,
                    "broker_pid": int | None,
                    "stream": Either((BEAT, None)),
                    "order": Either((Of(".engine.service.stream_health:Order"), None)),
                    "alerts": Either((BEAT, None)),
                    "deliveries": [Open({"receiver": str, "delivered": int, "notices": int})],
                    "publications": [PUBLICATION],
                    "radar": Either((Of(".engine.flow.readers:Danger", more={"at": str}), None)),
                    "rules": Either((Of(".engine.lake.shelves:Promotion"), None)),
                    "retired": {"*": Of(".engine.lake.completeness:Retirement")},
                    "undeclared": [str],
                    "drift": [str],
                },
                {
                    "lake": str,
                    "condition": {"well": bool, "says": str},
                    "known_since": TEXT,
                    "stream": Either((BEAT, None)),
                },
            )
        ),
    ),
    "logs": Answer("Lines of the log.", Open({}), in_lines=True),
    "serve users": Answer("The users.", [{"user": str, "unmasked": TEXT}]),
    "mcp clients": Answer("The clients.", [{"client": str}]),
    "radar": Answer(
        "What each reader still needs of each source.", [Of(".engine.flow.readers:Danger")]
    ),
    "try": Answer(
        "What the table gives.", Of(".operate.session:Trial", more={"since": str, "until": str})
    ),
    "preflight": Answer("Whether each stream can go on.", [Of(".engine.flow.preflight:Verdict")]),
    "maintain": Answer(
        "What was done to each table, and what had no owner.",
        {
            "tables": [Of(".engine.service.maintain:Maintained")],
            "left_behind": [Of(".engine.service.maintain:Left", more={"path": str})],
        },
    ),
    "snapshot": Answer(
        "What the snapshot holds.",
        Of(
            ".engine.lake.snapshot_files:Manifest",
            more={"snapshot": TEXT, "new_bytes": int, "removed": [str]},
        ),
    ),
    "restore": Answer(
        "What the snapshot holds, and the new lake.",
        Of(".engine.lake.snapshot_files:Manifest", more={"snapshot": str, "into": TEXT}),
    ),
    "expire": Answer("What expired, or would.", [Of(".engine.repair.expire:Expired")]),
    "forget": Answer(
        "What a request finds and what was done; with --scrub and --search what these found; else the requests of before.",
        Either(
            (
                {
                    "found": [Of(".engine.repair.forget:Part")],
                    "done": [Of(".engine.repair.forget:Part")],
                },
                {
                    "due": [Of(".engine.lake.forgotten:Forgotten")],
                    "done": [Of(".engine.repair.expire:Scrubbed")],
                },
                [Of(".engine.lake.forgotten:Hit")],
                [Of(".engine.lake.forgotten:Forgotten")],
            )
        ),
    ),
    "retire": Answer(
        "What was retired, deleted or taken back; of a topic where it ends.",
        Either(({"table": str, "retired?": str, "deleted": bool, "undone": bool}, MOVED)),
    ),
    "move": Answer("Where each side ends and begins.", MOVED),
    # Alerts and models.
    "rules list": Answer(
        "The rules that run; with --attack how many cover each tag.",
        Either(
            (
                [
                    {
                        **dict.fromkeys(("rule", "title", "severity", "table", "owner"), str),
                        "version": TEXT,
                        "examples": int,
                        "runbook": str,
                        "tags": [str],
                        "file": str,
                        "alerts?": int | None,
                        "micros?": float | None,
                    }
                ],
                [{"tag": str, "rules": int}],
            )
        ),
    ),
    "rules test": Answer(
        "How many examples were run, and which are wrong.",
        {
            "rules": int,
            "examples": int,
            "untested": int,
            "broken": [{"rule": str, "reason": str}],
        },
    ),
    "rules lint": Answer(
        "What does not run, and what rules lack.",
        {
            "runs": int,
            "refused": [{"file": str, "reason": str}],
            "lacking": [{"file": str, "lacks": str}],
        },
    ),
    "rules explain": Answer(
        "The rules that fire, and the near misses.",
        [
            {
                "rule": str,
                "title": str,
                "fires": bool,
                "held": int,
                "asked": int,
                "failing": [str],
            }
        ],
    ),
    "rules backtest": Answer(
        "What rules would have raised.",
        Of(
            "strandline_quality.findings:Backtest",
            more={"promoted?": Of(".engine.lake.shelves:Promotion")},
        ),
    ),
    "rules undo": Answer("Which version is live again.", {"taken_back": str, "live": TEXT}),
    "alerts": Answer(
        "Its log; with --background and --pause one answer.",
        Either((LOGGED, {"pid": int}, {"stopped": bool})),
        in_lines=True,
    ),
    "deliver": Answer("Its log.", LOGGED, in_lines=True),
    "models list": Answer(
        "The models and their versions.",
        [
            {
                "model": str,
                **dict.fromkeys(
                    (
                        "version",
                        "trained on",
                        "precision",
                        "recall",
                        "flagged",
                        "check",
                        "holds",
                    ),
                    TEXT,
                ),
                "rows": int | None,
            }
        ],
    ),
    "models show": Answer(
        "The decisions about a model; or what is known of a version.",
        Either(
            ({"terms": [DECISION], "history": [Open({})]}, Open({"version": str, "threshold": Any}))
        ),
    ),
    "models train": Answer("What is known of the new version.", Open({"version": str})),
    "models evaluate": Answer(
        "Its figures, and what the check has against it.",
        Open({"model": str, "version": str, "against": [str]}),
    ),
    "models promote": Answer("The decision.", {"model": str, **DECISION}),
    "models rescore": Answer("The decision.", {"model": str, **DECISION}),
    "models rollback": Answer("The decision.", {"model": str, **DECISION}),
    # Project.
    "lint": Answer("The mistakes.", [Of(".operate.lint:Finding")]),
    "contract diff": Answer("What changed.", [Of(".operate.drafts.contract:Change")]),
    "doctor": Answer("What is there and what is missing.", [Of("strandline_infra.setup:Check")]),
    "explain": Answer(
        "What a verb reads and changes, and its exit codes.",
        {
            "verb": str,
            "line": str,
            "reads": str,
            "changes": str,
            "extra": TEXT,
            "exits": dict[str, str],
            "of_its_own": [str],
        },
    ),
}
"""What each verb with ``--json`` answers; a word of its own verbs follows it."""


def schema(verb: str) -> Schema:
    """Return the JSON schema of what a verb answers, of each line where it answers in lines.

    Args:
        verb: The verb, and the word of its own verb after it.
    """
    about = ANSWERS[verb]
    says = f"One record a line: {about.says}" if about.in_lines else about.says
    heads = {"$schema": DRAFT, "title": f"strandline {verb} --json", "description": says}
    return {**heads, **_of(about.shape), "description": says}


def _of(shape: Any) -> Schema:  # noqa: ANN401  # a type, or what this module writes for one
    match shape:
        case Of():
            found = _of_class(_imported(shape.name), shape.more or {}, shape.less)
        case Open():
            found = {**_object(shape.known), "additionalProperties": True}
        case Either():
            found = _any_of(shape.each)
        case list():
            found = {"type": "array", "items": _of(shape[0])}
        case dict() if "*" in shape:
            found = {"type": "object", "additionalProperties": _of(shape["*"])}
        case dict():
            found = _object(shape)
        case None:
            found = PLAIN[NoneType]
        case _:
            found = _of_type(shape)
    return found


PLAIN: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    NoneType: {"type": "null"},
    Any: {},
    object: {},
}
TEXTS = (datetime, date, timedelta, Decimal, Path)
"""What is printed as a text."""


def _of_type(hint: Any) -> Schema:  # noqa: ANN401  # whatever a field is annotated with
    origin, args = get_origin(hint), get_args(hint)
    kind: Any = origin or hint
    if hint in PLAIN:
        found = PLAIN[hint]
    elif origin in {Union, UnionType}:
        found = _any_of(args)
    elif kind is tuple and args[-1:] != (Ellipsis,):
        ends = {"minItems": len(args), "maxItems": len(args)}
        found = {"type": "array", "prefixItems": [_of(each) for each in args], **ends}
    elif is_dataclass(kind):
        found = _of_class(cast("type", kind), {}, ())
    elif issubclass(kind, StrEnum):
        found = {"enum": [str(each) for each in kind]}
    elif issubclass(kind, TEXTS):
        found = PLAIN[str]
    elif issubclass(kind, Mapping):
        # A Counter has one argument, the type of its names.
        named = args[1] if len(args) > 1 else int
        found = {"type": "object", "additionalProperties": _of(named)}
    else:
        found = {"type": "array", "items": _of(args[0])}
    return found


def _any_of(kinds: Iterable[Any]) -> Schema:
    """Return the schema of one of several types; of plain ones it is a list of their names."""
    found = [_of(each) for each in kinds]
    if {} in found:
        return {}
    if all(each.keys() == {"type"} for each in found):
        return {"type": [each["type"] for each in found]}
    return {"anyOf": found}


def _object(known: Mapping[str, Any], about: Mapping[str, str] | None = None) -> Schema:
    said = about or {}
    return {
        "type": "object",
        "properties": {
            name.rstrip("?"): {**_of(each), **_described(said.get(name))}
            for name, each in known.items()
        },
        "required": [name for name in known if not name.endswith("?")],
        "additionalProperties": False,
    }


def _of_class(kind: type, more: Mapping[str, Any], less: tuple[str, ...]) -> Schema:
    hints, about = get_type_hints(kind), _arguments(kind)
    own = {each.name: hints[each.name] for each in fields(kind) if each.name not in less}
    said = (inspect.getdoc(kind) or "").partition("\n")[0]
    return {**_described(said), **_object({**own, **more}, about)}


def _described(text: str | None) -> Schema:
    return {"description": text} if text else {}


def _arguments(kind: type) -> dict[str, str]:
    """Return what the docstring of a class says of each of its fields."""
    _, _, listed = (inspect.getdoc(kind) or "").partition("Args:\n")
    found = re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", listed, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", text) for name, text in found}


def _imported(name: str) -> type:
    module, _, kind = name.partition(":")
    whole = f"strandline{module}" if module.startswith(".") else module
    found: type = getattr(importlib.import_module(whole), kind)
    return found
