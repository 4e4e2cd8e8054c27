"""Whatever is not exactly one JSON object is malformed, however close it is to one."""

import json

import pytest

from tests.support.payloads import CLEAN, Parse, problems, with_value

pytestmark = pytest.mark.whole

CLOSES_THE_WRAPPER = (
    CLEAN + b"]",
    CLEAN + b', {"_end": 1}]',
    CLEAN + b', {"_end": 1}',
    CLEAN + b"\n, " + CLEAN + b"]",
    CLEAN + b', {"_end": null}] ',
    b'{"event_id": "e1"}]',
    b'{"event_id": "e1"}, {"_end": 1}]',
    b"], " + CLEAN,
    b"],[" + CLEAN,
    b"{}, " + CLEAN,
    b"null, " + CLEAN,
    CLEAN + b", null",
    CLEAN + b",",
    b"," + CLEAN,
)


def test_a_payload_cannot_close_the_array_that_it_is_read_in(parsed: Parse) -> None:
    """What follows a valid document is ignored by Spark, so half of such a payload would vanish."""
    found = problems(parsed(CLOSES_THE_WRAPPER))

    assert dict(zip(CLOSES_THE_WRAPPER, found, strict=True)) == dict.fromkeys(
        CLOSES_THE_WRAPPER, "malformed"
    )


FORGED = CLEAN + b',{"_end":-8465079550175549515}] x       hJuha"DY'
"""Closes the array and carries its own xxhash64, which can be solved backwards for the last eight bytes."""


def test_a_payload_cannot_carry_the_mark_that_ends_the_array(parsed: Parse) -> None:
    """No accident makes such a payload, but a person can, and half of what was sent would vanish."""
    assert problems(parsed([FORGED])) == ["malformed"]


NOT_AN_OBJECT = (
    None,
    b"",
    b" ",
    b"\n\t ",
    b"null",
    b"true",
    b"17",
    b'"text"',
    b"[]",
    b"[{}]",
    b"[null]",
    b"{",
    b"}",
    b"{]",
    b'{"event_id"}',
    b'{"event_id": }',
    b'{"event_id": "e1"',
    b'{"event_id": "e1',
    b'{"event_id": ["e1"',
    b'{"meta": {"seq": 1}',
)


def test_what_is_no_object_is_malformed_and_a_tombstone_is_none(parsed: Parse) -> None:
    """An unfinished payload could swallow the end mark and look finished."""
    found = problems(parsed(NOT_AN_OBJECT))

    assert dict(zip(NOT_AN_OBJECT, found, strict=True)) == dict.fromkeys(NOT_AN_OBJECT, "malformed")


JUDGED_BY_PYTHON = (
    CLEAN,
    b"  " + CLEAN + b"\r\n\t ",
    CLEAN.replace(b", ", b"\n,\n"),
    CLEAN.replace(b'"e1"', b'"\\u00e9\\n\\/\\ud83d\\ude00"'),
    CLEAN.replace(b'"e1"', '"№ 二階 😀"'.encode()),
    with_value(b"1e3"),
    with_value(b"1E+3"),
    with_value(b"-0"),
    with_value(b"01"),
    with_value(b"+1"),
    with_value(b".5"),
    with_value(b"5."),
    with_value(b"0x10"),
    with_value(b"1_000"),
    with_value(b"1,5"),
    with_value(b"NaN"),
    with_value(b"-Infinity"),
    with_value(b"Infinity"),
    with_value(b"INF"),
    with_value(b"True"),
    with_value(b"nul"),
    with_value(b"undefined"),
    CLEAN.replace(b'"', b"'"),
    CLEAN.replace(b'"event_id"', b"event_id"),
    CLEAN.replace(b'"e1"', b'"e\t1"'),
    CLEAN.replace(b'"e1"', b'"e\n1"'),
    CLEAN.replace(b'"e1"', b'"e\x001"'),
    CLEAN.replace(b'"e1"', b'"\\q"'),
    CLEAN.replace(b'"e1"', b'"\\u12"'),
    CLEAN.replace(b'"e1"', b'"\\'),
    CLEAN.replace(b"}}", b"},}"),
    CLEAN.replace(b"}}", b",}}"),
    CLEAN.replace(b"{", b"{,", 1),
    CLEAN.replace(b": ", b" = "),
    b"// a comment\n" + CLEAN,
    CLEAN + b"// a comment",
    CLEAN.replace(b"{", b"{/* a comment */", 1),
    b"# a comment\n" + CLEAN,
    b"\xef\xbb\xbf" + CLEAN,
    b"\xff\xfe" + CLEAN.decode().encode("utf-16-le"),
    CLEAN.decode().encode("utf-16-le"),
    CLEAN.decode().encode("utf-16-be"),
    CLEAN.decode().encode("utf-32-le"),
    CLEAN.replace(b"e1", b"e\xff"),
    CLEAN.replace(b"e1", b"e\xc3"),
    CLEAN.replace(b"e1", b"\xc0\xaf"),
    CLEAN.replace(b"e1", b"\xed\xa0\x80"),
    CLEAN.replace(b"e1", b"\xf5\x80\x80\x80"),
    b"\xc2\xa0" + CLEAN,
    b"\x0c" + CLEAN,
    b"\x00" + CLEAN,
    CLEAN + b"\x00",
    CLEAN + b"\xe2\x80\xa8",
    CLEAN.replace(b'"seq": 17', b'"seq": 17, "more": ' + b"[" * 400 + b"]" * 400),
    CLEAN.replace(b'"seq": 17', b'"seq": 17, "more": ' + b"[" * 400 + b"]" * 399),
)


def test_what_python_refuses_as_json_is_malformed_and_nothing_else(parsed: Parse) -> None:
    """Spark's reader is lenient; Python's shows where."""
    found = problems(parsed(JUDGED_BY_PYTHON))

    reasons = dict(zip(JUDGED_BY_PYTHON, found, strict=True))
    assert reasons == {p: None if is_json(p) else "malformed" for p in JUDGED_BY_PYTHON}


def is_json(payload: bytes) -> bool:
    try:
        found = json.loads(payload.decode(), parse_constant=refuse)
    except ValueError:
        return False
    return isinstance(found, dict)


def refuse(constant: str) -> None:
    raise ValueError(constant)


def test_a_payload_beyond_all_limits_is_malformed_and_ends_no_query(parsed: Parse) -> None:
    """One event must never be able to end a query; the reader's own limits do not."""
    deep = CLEAN.replace(
        b'"seq": 17', b'"seq": 17, "more": ' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000
    )
    long_number = CLEAN.replace(b'"seq": 17', b'"seq": 17, "more": ' + b"9" * 5_000)

    found = problems(parsed([deep, long_number, CLEAN]))

    assert found == ["malformed", "malformed", None]
