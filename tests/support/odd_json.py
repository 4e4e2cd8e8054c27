"""Payloads at random for a record of random types: most are nearly right, and each is odd in some way that a reader must see.

The seed decides them all. A payload is written by hand, not by a library, because a library writes no JSON that is odd.
"""

import random
from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

Literal: TypeAlias = Callable[[random.Random], str]

NAMES = ("a", "b", "id", "value", "at", "a.b", "é", "名", "x y", "😀", "null", "1")
OTHER_NAMES = (*NAMES, "A", "more", "_end", "_text", "_pair", "_first", "_corrupt", "_problem", "")

WORDS = (
    *(
        "",
        " ",
        "a",
        "e1",
        "dev-00042",
        "temperature",
        "№ 二階 😀",
        "é",
        "17",
        "-1.5e3",
        "true",
        "false",
    ),
    *(
        "null",
        "{}",
        "[",
        "{",
        "[1]",
        '{\\"a\\": 1}',
        "-",
        "1E400",
        "NaN",
        "Infinity",
        "10.0.0.1",
        "01",
    ),
    *(
        "\\u00e9",
        "\\n\\t\\/\\b\\f\\r",
        "\\\\",
        '\\"',
        "\\u0000",
        "\\ud83d\\ude00",
        "\\\\ud83d",
        "\\\\\\\\",
    ),
    *(
        "2026-11-20",
        "2026-11-20T08:15:30Z",
        "\\u0032026-11-20T08:15:30Z",
        "\x7f",
        "\u2028",
        "a" * 3_000,
    ),
)
BROKEN_WORDS = (
    *(
        "\\ud83d",
        "\\ude00",
        "\\ud83d\\ud83d",
        "\\ude00\\ud83d",
        "\\ud83d\\\\ude00",
        "\\\\ud83d\\ude00",
    ),
    *(
        "\\\\\\ud83d",
        "\\uD83d\\uDe00",
        "\\uDBFF",
        "\\q",
        "\\u12",
        "\\",
        "a\tb",
        "a\nb",
        "\x00",
        "\x1f",
        "'",
    ),
)
NUMBERS = (
    *(
        "0",
        "-0",
        "1",
        "17",
        "-21.37",
        "1.5",
        "0.1",
        "1.2345",
        "1.23456",
        "1.234500",
        "12345e-4",
        "1e3",
        "1E+3",
    ),
    *(
        "-0.0",
        "1E-9",
        "0.00004",
        "9999999999.9999",
        "9999999999.99994",
        "10000000000",
        "99999999999.99",
    ),
    *("9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *(
        "127",
        "128",
        "255",
        "256",
        "-128",
        "-129",
        "32767",
        "32768",
        "2147483647",
        "2147483648",
        "3.4e38",
    ),
    *(
        "0.30000000000000004",
        "0.1000000000000000055511151231257827",
        "123456789012345678901234567890",
    ),
    *(
        "2.0E-3",
        "2e-322",
        "4.9e-324",
        "1e-400",
        "1.0",
        "100",
        "1e0",
        "0e0",
        "0.0",
        "5e-1",
        "1e22",
        "1e23",
    ),
)
HUGE = ("1e999", "-1e999", "9" * 400, "1e400", "1E99999999999")
NO_NUMBERS = (
    *(
        "01",
        "+1",
        ".5",
        "5.",
        "0x10",
        "1_000",
        "1,5",
        "NaN",
        "-Infinity",
        "Infinity",
        "INF",
        "--1",
        "1e",
        "-",
    ),
    *("True", "nul", "undefined", "1.e3", "00", "9" * 1_001, "0." + "1" * 1_001),
)
MOMENTS = (
    *(
        "2026-11-20T08:15:30Z",
        "2026-11-20T08:15:30.123Z",
        "2026-11-20 08:15:30",
        "2026-11-20T08:15:30.123456",
    ),
    *(
        "2026-11-20T08:15:30.123456789Z",
        "2026-11-20T08:15:30.1234567891Z",
        "2026-11-20T08:15:30+02:00",
    ),
    *(
        "2026-11-20T08:15:30-09:30",
        "2026-02-28T23:59:59.999999-00:30",
        "1969-12-31T23:59:59.999999Z",
    ),
    *(
        "0001-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "2024-02-29T00:00:00Z",
    ),
    *(
        "2026-11-20T08:15:30 Europe/Berlin",
        "2026-11-20T08:15:30UTC",
        "2026-11-20T08:15:30 Z",
        "2026-11-20T8:15:30",
    ),
    *("2026-11-20T08:15", "2026-11-20T08:15:30.", "2026-11-20T08:15:30.Z", "1582-10-10T00:00:00Z"),
    *(
        "2026-11-31T08:15:30Z",
        "2026-11-30T08:15:30Z",
        "+02026-11-20T08:15:30Z",
        "2026-11-20T08:15:30z",
    ),
    *("2026-11-20T08:15:30\\u005a", "2026-11-20T08:15:30.1Z ", "2026-11-20\\tT08:15:30"),
)
NO_MOMENTS = (
    *(
        "",
        " ",
        "now",
        "today",
        "epoch",
        "2026-02-30T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "2026-11-20T24:00:00Z",
    ),
    *(
        "2026-11-20T08:61:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-10T00:00:00Z",
        "2026-11-00T00:00:00Z",
    ),
    *(
        "20/11/2026",
        "2026-11-20T08:15:30X",
        "08:15:30",
        "T08:15:30",
        "2026-11-20",
        "2026-11",
        "2026",
        "８",  # noqa: RUF001  # a digit of another alphabet is none of a time
    ),
    *(
        " 2026-11-20T08:15:30Z",
        "2026-11-20t08:15:30Z",
        "2026-11-20T08:15:60Z",
        "２026-11-20T08:15:30Z",  # noqa: RUF001  # as above
    ),
)
DAYS = (
    "2026-11-20",
    "1970-01-01",
    "0001-01-01",
    "2024-02-29",
    "2025-02-29",
    "20000",
    "2026-11",
    "x",
    "",
)
BYTES = ("", "YQ==", "YWJj", "YWJj\\n", "!", "YQ", "a")

LEAVES: tuple[DataType, ...] = (
    *(
        StringType(),
        StringType(),
        StringType(),
        LongType(),
        DoubleType(),
        TimestampType(),
        TimestampType(),
    ),
    *(
        DecimalType(14, 4),
        DecimalType(12, 2),
        DecimalType(15, 0),
        DecimalType(15, 15),
        DecimalType(6, 1),
    ),
    *(BooleanType(), IntegerType(), ShortType(), ByteType(), FloatType(), DateType(), BinaryType()),
    VariantType(),
)


def record(chance: random.Random, depth: int = 3) -> StructType:
    """Return a record of random types."""
    made = StructType()
    for name in chance.sample(NAMES, chance.randint(1, 6)):
        made.add(name, _kind(chance, depth))
    return made


def _kind(chance: random.Random, depth: int) -> DataType:
    if depth == 0 or chance.random() < 0.6:
        return chance.choice(LEAVES)
    match chance.randrange(3):
        case 0:
            return record(chance, depth - 1)
        case 1:
            return ArrayType(_kind(chance, depth - 1))
        case _:
            return MapType(StringType(), _kind(chance, depth - 1))


def payload(chance: random.Random, fields: StructType) -> bytes | None:
    """Return a payload for a record: a third is right, a third has a wrong value somewhere, a third is no JSON, or hardly."""
    match chance.randrange(9):
        case 0 | 1 | 2:
            return _object(chance, fields, 0.0).encode()
        case 3 | 4 | 5:
            return _object(chance, fields, chance.choice([0.02, 0.1, 0.4])).encode()
        case 6:
            return _rare(chance, _object(chance, fields, 0.02).encode())
        case _:
            return _spoiled(
                chance, _object(chance, fields, chance.choice([0.0, 0.0, 0.1])).encode()
            )


def _gap(chance: random.Random) -> str:
    return chance.choice(("", "", "", " ", " ", "\n", "\t ", "\r\n"))


def _object(chance: random.Random, fields: StructType, oddness: float) -> str:
    parts = []
    for each in fields:
        if chance.random() < 0.1:
            continue
        parts.append((each.name, _value(chance, each.dataType, oddness)))
        if chance.random() < 0.05:
            parts.append((each.name, _value(chance, each.dataType, max(oddness, 0.3))))
    if chance.random() < 0.3:
        parts.append((chance.choice(OTHER_NAMES), _any(chance, 2)))
    if chance.random() < 0.3:
        chance.shuffle(parts)
    return _joined(chance, parts)


def _joined(chance: random.Random, parts: list[tuple[str, str]]) -> str:
    inner = f"{_gap(chance)},{_gap(chance)}".join(
        f'"{_name(chance, name)}"{_gap(chance)}:{_gap(chance)}{value}' for name, value in parts
    )
    return f"{_gap(chance)}{{{_gap(chance)}{inner}{_gap(chance)}}}{_gap(chance)}"


def _name(chance: random.Random, name: str) -> str:
    """Return a name as it is, or as escapes, which is the same name."""
    if chance.random() > 0.03:
        return name
    units = name.encode("utf-16-be")
    return "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))


def _value(chance: random.Random, kind: DataType, oddness: float) -> str:
    if chance.random() < oddness:
        return _any(chance, 2)
    if chance.random() < 0.05:
        return "null"
    match kind:
        case StructType():
            return _object(chance, kind, oddness)
        case ArrayType():
            each = [_value(chance, kind.elementType, oddness) for _ in range(chance.randrange(4))]
            return f"[{_gap(chance)}{','.join(each)}{_gap(chance)}]"
        case MapType():
            some = [
                (chance.choice(OTHER_NAMES), _value(chance, kind.valueType, oddness))
                for _ in range(chance.randrange(4))
            ]
            return _joined(chance, some)
        case _:
            return _leaf(chance, kind, oddness)


def _leaf(chance: random.Random, kind: DataType, oddness: float) -> str:  # noqa: C901, PLR0911  # one for each kind
    match kind:
        case StringType():
            return f'"{chance.choice(WORDS)}"'
        case TimestampType():
            text = chance.choice(NO_MOMENTS if chance.random() < oddness else MOMENTS)
            if chance.random() < oddness and text:
                at = chance.randrange(len(text))
                text = text[:at] + chance.choice("0123456789x-:.TZ +é") + text[at + 1 :]
            return f'"{text}"'
        case DateType():
            return f'"{chance.choice(DAYS[: 4 if oddness == 0 else None])}"'
        case BinaryType():
            return f'"{chance.choice(BYTES[: 3 if oddness == 0 else None])}"'
        case BooleanType():
            return chance.choice(("true", "false"))
        case VariantType():
            return _any(chance, 2)
        case DecimalType():
            if chance.random() < 0.7:
                number = chance.randrange(
                    -(10**kind.precision) + 1, 10**kind.precision
                ) // 10 ** chance.randrange(kind.precision)
                text = f"{abs(number):0{kind.scale + 1}d}"
                cut = len(text) - kind.scale
                return f"{'-' if number < 0 else ''}{text[:cut]}{'.' if kind.scale else ''}{text[cut:]}"
            return chance.choice(NUMBERS)
        case DoubleType() | FloatType():
            return (
                repr(chance.uniform(-1e6, 1e6)) if chance.random() < 0.5 else chance.choice(NUMBERS)
            )
        case _:
            return str(chance.randrange(100)) if chance.random() < 0.8 else chance.choice(NUMBERS)


def _any(chance: random.Random, depth: int) -> str:  # noqa: PLR0911  # one for each kind
    """Return a value of any type."""
    match chance.randrange(12 if depth else 9):
        case 0 | 1:
            return chance.choice(NUMBERS)
        case 2 | 3:
            return f'"{chance.choice(WORDS)}"'
        case 4:
            return chance.choice(("true", "false"))
        case 5:
            return "null"
        case 6:
            return f'"{chance.choice(MOMENTS + NO_MOMENTS)}"'
        case 7:
            return chance.choice(("{}", "[]", '""', "[[]]", '{"a": 1, "a": 2}'))
        case 8:
            return chance.choice(HUGE)
        case 9:
            return f"[{', '.join(_any(chance, depth - 1) for _ in range(chance.randrange(4)))}]"
        case _:
            return _joined(
                chance,
                [
                    (chance.choice(OTHER_NAMES), _any(chance, depth - 1))
                    for _ in range(chance.randrange(4))
                ],
            )


def _rare(chance: random.Random, whole: bytes) -> bytes | None:
    """Return what is no object, or is beyond a limit."""
    # Spark's reader overflowed its stack where a text was declared and hundreds of levels came (tests/core/test_strict_json.py).
    deep = chance.choice((10, 100, 1_001, 5_000))
    kinds: tuple[Callable[[], bytes | None], ...] = (
        lambda: None,
        lambda: chance.choice(
            (
                b"",
                b" ",
                b"\n",
                b"{",
                b"}",
                b"[]",
                b"{}",
                b"[{}]",
                b"17",
                b'"a"',
                b"null",
                b"true",
                b"{]",
            )
        ),
        lambda: b"[" + whole + b"]",
        lambda: b"[" * deep,
        lambda: whole.replace(b"}", b', "more": ' + b"[" * deep + b"]" * deep + b"}", 1),
        lambda: whole.replace(b"}", b', "more": ' + b'{"a":' * deep + b"1" + b"}" * deep + b"}", 1),
        lambda: whole.replace(b"}", b', "more": ' + chance.choice(NO_NUMBERS).encode() + b"}", 1),
        lambda: whole.replace(
            b"}", b', "more": "' + chance.choice(BROKEN_WORDS).encode() + b'"}', 1
        ),
        lambda: whole.replace(b"}", b', "' + chance.choice(BROKEN_WORDS).encode() + b'": 1}', 1),
        lambda: whole.decode().encode(
            chance.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "utf-8-sig"))
        ),
    )
    return chance.choice(kinds)()


PIECES = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"'",
        b" ",
        b"\n",
        b"\x00",
        b"\x0c",
        b"\xff",
        b"\xc3",
        b"\xe2\x82",
    ),
    *(
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf5\x80\x80\x80",
        b"\xef\xbb\xbf",
        b"\xc2\xa0",
        b"\xe2\x80\xa8",
        b"null",
        b"1",
    ),
    *(
        b"\\u",
        b"\\ud83d",
        b"\\ude00",
        b"//x\n",
        b"/*x*/",
        b"#x\n",
        b"NaN",
        b"-",
        b"e",
        b".",
        b"0",
        b'"_end": "x"',
    ),
)
ENDS = (
    *(
        b"]",
        b" ]",
        b"}",
        b",",
        b", null",
        b", {}",
        b", {}]",
        b',{"_end": 1}]',
        b", 1]",
        b", null]",
        b'\n,{"_end":"x"}',
        b" x",
    ),
    *(
        b"\x00",
        b"\n\t ",
        b"/",
        b"//",
        b"\xff",
        b"]\xff",
        b", [",
        b']"',
        b", {} ]{",
        b",{} x]",
        b"null",
        b'{"a":1}',
        b" 1",
    ),
)


def _spoiled(chance: random.Random, whole: bytes) -> bytes:  # noqa: PLR0911  # one for each kind
    """Return a payload that is cut, goes on, or has other bytes somewhere."""
    at = chance.randrange(len(whole) + 1)
    match chance.randrange(10):
        case 0:
            return whole[:at]
        case 1 | 2:
            return whole + chance.choice(ENDS)
        case 3:
            return chance.choice(PIECES) + whole
        case 4:
            return (
                whole
                + chance.choice((b"", b"\n", b",", b", "))
                + whole
                + chance.choice((b"", b"]"))
            )
        case 5:
            return whole[:at] + whole[at + chance.randint(1, 3) :]
        case 6:
            return whole.replace(
                b'"', b'"' + chance.choice(BROKEN_WORDS).encode(), chance.randint(1, 4)
            )
        case 7:
            return whole[:at] + bytes([chance.randrange(256)]) + whole[at + 1 :]
        case _:
            return whole[:at] + chance.choice(PIECES) + whole[at:]
