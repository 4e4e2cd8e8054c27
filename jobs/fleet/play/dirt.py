"""Every way in which an event of this playground can be odd, with an example.

Each function takes a clean payload and a number to vary by, and returns a payload that is odd in exactly
one way. The reason beside it is the one that the quarantine must record.

The rule of ``wrong_type``: a field that is present must be of the declared JSON type, and an event time
must be a moment. Numbers where text is declared (``"device_id": 42``) and numbers with more digits than
declared are not made: the table decides whether those are read or refused, not the playground.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from fleet.play.kinds import Kind

Spoil: TypeAlias = Callable[[bytes, int], bytes]
Fields: TypeAlias = dict[str, object]

COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to be odd.

    Args:
        name: The name of the oddity.
        reason: The reason that the quarantine records; None for a good event.
        spoil: Turns a clean payload into an odd one.
    """

    name: str
    reason: str | None
    spoil: Spoil


def _malformed(name: str, spoil: Spoil) -> Variant:
    return Variant(name=name, reason="malformed", spoil=spoil)


def _with(change: Callable[[Fields], object]) -> Spoil:
    def spoil(clean: bytes, _: int) -> bytes:
        fields: Fields = json.loads(clean)
        change(fields)
        return COMPACT.encode(fields).encode()

    return spoil


def wrong(field: str, kind: str, value: Callable[[object], object]) -> Variant:
    """Return a variant with a field of another type than declared."""
    return Variant(
        name=f"{field}_{kind}",
        reason="wrong_type",
        spoil=_with(lambda fields: fields.update({field: value(fields[field])})),
    )


def missing(field: str) -> tuple[Variant, Variant]:
    """Return two variants: a required field is absent, and it is null."""
    reason = f"missing:{field}"
    return (
        Variant(
            name=f"{field}_absent", reason=reason, spoil=_with(lambda fields: fields.pop(field))
        ),
        Variant(
            name=f"{field}_null",
            reason=reason,
            spoil=_with(lambda fields: fields.update({field: None})),
        ),
    )


def unknown(name: str, extra: Fields) -> Variant:
    """Return a variant with undeclared fields, which is good."""
    return Variant(name=name, reason=None, spoil=_with(lambda fields: fields.update(extra)))


MALFORMED = (
    # A cut never falls at the very end, so the object is never closed.
    _malformed("truncated", lambda clean, salt: clean[: 1 + salt % (len(clean) - 1)]),
    _malformed("trailing_text", lambda clean, _: clean + b" end of message"),
    # Closes an array that a parser may have put around the payload.
    _malformed("trailing_bracket", lambda clean, _: clean + b"]"),
    _malformed("two_documents", lambda clean, _: clean + b"\n" + clean),
    _malformed("two_documents_with_comma", lambda clean, _: clean + b", " + clean),
    _malformed("single_quotes", lambda clean, _: clean.replace(b'"', b"'")),
    _malformed("not_a_number", lambda clean, _: _replace_value(clean, b"NaN")),
    _malformed("bare_array", lambda clean, _: b"[" + clean + b"]"),
    _malformed("empty", lambda _clean, _: b""),
    _malformed("not_json", lambda _clean, _: b"not json"),
    _malformed("bad_utf8", lambda clean, _: clean.replace(b'"dev-', b'"\xff\xfe-', 1)),
    _malformed("byte_order_mark", lambda clean, _: b"\xef\xbb\xbf" + clean),
)

WRONG_TYPE = (
    wrong("value", "string", str),
    wrong("value", "object", lambda value: {"celsius": value}),
    wrong("value", "array", lambda value: [value]),
    wrong("value", "boolean", lambda _: True),
    wrong("event_at", "word", lambda _: "yesterday"),
    wrong("event_at", "impossible_date", lambda at: f"{str(at)[:4]}-02-30{str(at)[10:]}"),
    wrong("event_at", "number", lambda at: _milliseconds(str(at))),
    wrong("meta", "string", lambda _: "1.4.2"),
    wrong("meta", "array", lambda meta: [meta]),
)

MISSING = (
    *missing("event_id"),
    *missing("device_id"),
    *missing("event_at"),
    *missing("signal"),
    *missing("value"),
)

IMPLAUSIBLE = (
    Variant(
        name="far_below",
        reason="implausible:value",
        spoil=_with(lambda fields: fields.update(value=-999)),
    ),
)

UNKNOWN_FIELD = (
    unknown("number", {"rssi": -67}),
    unknown("object", {"debug": {"value": "21.5", "free": [20344, None]}}),
    unknown("text_beyond_ascii", {"place": "Gerätehaus №7, 二階"}),
    Variant(
        name="in_meta",
        reason=None,
        spoil=_with(lambda fields: fields.update(meta=_beside(fields["meta"], {"board": "rev-c"}))),
    ),
)


OF_ANY_OBJECT = tuple(v for v in MALFORMED if v.name not in {"not_a_number", "bad_utf8"})
"""The malformed variants that need no field of a reading."""


def objects(*names: str, time: str = "event_at") -> dict[Kind, tuple[Variant, ...]]:
    """Return the variants of an object with these required texts and a time."""
    return {
        Kind.MALFORMED: OF_ANY_OBJECT,
        Kind.WRONG_TYPE: (
            wrong(time, "word", lambda _: "yesterday"),
            wrong(time, "object", lambda at: {"at": at}),
        ),
        Kind.MISSING: tuple(variant for name in (*names, time) for variant in missing(name)),
        Kind.UNKNOWN_FIELD: (unknown("object", {"client": {"version": 7}}),),
    }


def _replace_value(clean: bytes, literal: bytes) -> bytes:
    head, tail = clean.split(b'"value": ', 1)
    return head + b'"value": ' + literal + tail[tail.index(b",") :]


def _milliseconds(moment: str) -> int:
    epoch = datetime.fromisoformat("1970-01-01T00:00:00Z")
    return (datetime.fromisoformat(moment) - epoch) // timedelta(milliseconds=1)


def _beside(fields: object, extra: Fields) -> Fields:
    if not isinstance(fields, dict):
        message = f"meta of a clean payload is {fields!r}, not an object"
        raise TypeError(message)
    return {**fields, **extra}
