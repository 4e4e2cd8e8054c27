"""The type and rough length of a sensitive value are shown, and never the value, whatever the payload."""

import json

import pytest

from strandline_quality.mask import mask_value, payload

NAME = "alice.example"
SENSITIVE = ("user_id", "CommandLine")
KNOWN = ("action_id", "action", "event_at", "_offset")


def shown(data: bytes) -> str:
    return payload(data, SENSITIVE, KNOWN)


@pytest.mark.parametrize(
    ("value", "like"),
    [
        ("a", "[text, 1 long]"),
        ("alice", "[text, 5 to 8 long]"),
        ("alice.ex", "[text, 5 to 8 long]"),
        ("alice.exa", "[text, 9 to 16 long]"),
        (4711, "[number, 3 to 4 long]"),
        (True, "[yes or no]"),
        (["a"], "[list]"),
        ({"alice": 1}, "[object]"),
        (None, None),
        ("", ""),
    ],
)
def test_a_value_keeps_its_type_and_its_length_to_a_class(value: object, like: object) -> None:
    """That a name is empty or absent is what many rules are about, and gives nothing away."""
    assert mask_value(value) == like


@pytest.mark.parametrize(
    "written",
    [
        b'{"action":"login","user_id":"alice.example"}',
        b'{"action":"login","USER_ID":"alice.example"}',
        b'{"action":"login","userId":"alice.example"}',
        b'{"action":"login","us\\u0065r_id":"alice.example"}',
        b'{"action":"login","user_id":["alice.example",{"x":"alice.example"}]}',
        b'{"action":"login","user_id":{"alice.example":1}}',
        b'{"action":"login","more":{"deep":[{"user_id":"alice.example"}]}}',
        b'{"action":"login","user_id":"bob","user_id":"alice.example"}',
        b'{"action":"login","usr":"alice.example"}',
        b'{"action":"login","alice.example":1}',
        b'{"action":"login","action_id":{"y":"alice.example"}}',
    ],
)
def test_a_sensitive_field_never_shows_however_it_is_written(written: bytes) -> None:
    """Names in other letters, escaped, deeper, twice, or wrong altogether."""
    masked = shown(written)

    assert NAME not in masked
    assert "bob" not in masked
    assert json.loads(masked)["action"] == "login"


@pytest.mark.parametrize(
    "written",
    [
        b'{"user_id":"alice.example"',
        b'{"user_id":"alice.example"} x',
        b'["alice.example"]',
        b'"alice.example"',
        b"alice.example;login",
        b'{"user_id":NaN,"x":"alice.example"}',
        b"\xff\xfealice.example",
        b'{"a":' * 100_000 + b'"alice.example"',
    ],
)
def test_what_cannot_be_read_field_by_field_is_shown_as_size_and_hash(written: bytes) -> None:
    """Any part of it may be the name."""
    masked = shown(written)

    assert NAME not in masked
    assert masked.startswith(f"[{len(written):,} bytes, sha256 ")


@pytest.mark.whole
def test_fields_that_are_harmless_are_shown_as_they_came() -> None:
    """Otherwise the fault of the row could not be seen."""
    masked = shown(b'{"action_id":null,"action":"login","event_at":"yesterday","user_id":"alice"}')

    assert json.loads(masked) == {
        "action_id": None,
        "action": "login",
        "event_at": "yesterday",
        "user_id": "[text, 5 to 8 long]",
    }


def test_where_nothing_is_sensitive_the_payload_is_shown() -> None:
    """Bytes that are no text are written out, long ones are cut, and a tombstone is named."""
    assert payload(b'{"a": <b>', ()) == '{"a": <b>'
    assert payload(b"\xff!", ()) == "\\xff!"
    assert payload(b"x" * 1_000, ()) == "x" * 400 + "… (1,000 characters)"
    assert payload(None, ()) == "[no payload]"
