"""Masks values: shows the type and the length class of a value without the value.

To find the cause of a bad row, a person needs to know that a name was there, that it was a text and about how long; not
whose name it was. Lengths are given in classes that double, because the exact length of a name can identify it.

A payload is shown field by field. Fields that are not known to be harmless are masked, because a broken payload may
give a sensitive field any name; for a payload that cannot be read field by field, only size and hash are shown.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

SHOWN = 400
"""The number of characters of a payload that are shown."""


def mask_value(value: object) -> object:
    """Return the type of a value and the class of its length; an absent value stays absent."""
    return value if value is None or value == "" else f"[{_like(value)}]"


def mask_fields(
    document: Mapping[str, Any], sensitive: Collection[str], known: Collection[str] | None = None
) -> dict[str, Any]:
    """Mask the sensitive fields of a document, at any depth and however their names are written.

    Args:
        document: The fields by name.
        sensitive: The names of fields that are never shown.
        known: If given, the only names that may be shown at all.
    """
    hidden = {_plain(name) for name in sensitive}
    shown = None if known is None else {_plain(name) for name in known}
    masked: dict[str, Any] = {}
    for name, value in document.items():
        label = name if _may_show_name(name, hidden, shown) else f"[a name, {len(masked) + 1}]"
        masked[label] = _masked(name, value, hidden, shown)
    return masked


def payload(
    data: bytes | None, sensitive: Collection[str], known: Collection[str] | None = None
) -> str:
    """Return a payload as it may be shown.

    Args:
        data: The bytes as received; None is a tombstone.
        sensitive: The fields that are never shown; without any the text is shown as it is, cut where it is long.
        known: If given, the only fields that may be shown where there are sensitive ones.
    """
    if data is None:
        return "[no payload]"
    if not sensitive:
        return _cut(data.decode(errors="backslashreplace"))
    document = _document(data)
    if document is None:
        return f"[{len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()[:16]}]"
    return _cut(json.dumps(mask_fields(document, sensitive, known), ensure_ascii=False))


def _masked(name: str, value: Any, hidden: set[str], shown: set[str] | None) -> Any:  # noqa: ANN401  # JSON
    if _plain(name) in hidden:
        return mask_value(value)
    match value:
        case dict():
            return mask_fields(value, hidden, shown)
        case list():
            return [_masked(name, each, hidden, shown) for each in value]
        case _:
            is_shown = shown is None or _plain(name) in shown
            return value if is_shown else mask_value(value)


def _may_show_name(name: str, hidden: set[str], shown: set[str] | None) -> bool:
    """Return whether a field's name was declared; an undeclared name may itself be a sensitive value."""
    return shown is None or _plain(name) in shown or _plain(name) in hidden


def _document(data: bytes) -> dict[str, Any] | None:
    try:
        document = json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _plain(name: str) -> str:
    """Return a normal form of a name: lower case, letters and digits only."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _like(value: object) -> str:
    match value:
        case bool():
            return "yes or no"
        case int() | float():
            return f"number, {_class(len(str(value)))} long"
        case str():
            return f"text, {_class(len(value))} long"
        case Mapping():
            return "object"
        case list() | tuple():
            return "list"
        case _:
            return type(value).__name__


def _class(length: int) -> str:
    """Return the class of a length, by powers of two: 1, 2, 3 to 4, 5 to 8, 9 to 16 and so on."""
    top = 1 << (length - 1).bit_length() if length > 1 else length
    bottom = top // 2 + 1
    return str(top) if bottom >= top else f"{bottom} to {top}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text):,} characters)"
