"""Payloads made to do harm: some are no rows, some are rows whose text looks like an attack."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle
from random import Random

MOMENT = "2026-11-20T08:15:30.123Z"

NAUGHTY = (
    "",
    " ",
    "NULL",
    "undefined",
    "NaN",
    "-1e400",
    "0x0",
    "true",
    "' OR '1'='1",
    "'; DROP TABLE silver.process_events; --",
    '" OR ""="',
    "\\",
    "\\\\",
    '\\"',
    "C:\\users\\ud800\\new\\table",
    "${jndi:ldap://127.0.0.1/a}",
    "$(reboot)",
    "`id`",
    "| cat /etc/passwd",
    "../../../../etc/passwd",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "{{7*7}}",
    "%s%s%s%n",
    "%00",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "__proto__",
    "constructor",
    '{"CommandLine": "inner"}',
    "[1, 2, 3]",
    "// no comment",
    "/* nor this */",
    "line\nbreak\r\nand\ttab",
    "\u2028line\u2029paragraph\u0085next",
    "zero\u0000byte",
    "\u0001\u0007\u001b[31mred\u007f",
    "bom\ufeffinside",
    "no\u200bwidth\u200d\u2060",
    "\u202eright to left",
    "A\u030a \u00c5 \u212b",
    "\u00df \u1e9e \u0130 \u0131",
    "\u6f22\u5b57 \u304b\u306a \ud55c\uae00",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\U0001f469\u200d\U0001f4bb \U0001f1e9\U0001f1ea",
    "\U00010348\U0010ffff",
    "z\u0351\u036b\u0343\u032aalgo",
    "\ufffd\ufffe\uffff",
    "a" * 70_000,
    "9" * 400,
    "1970-01-01T00:00:00Z",
)
"""Valid texts, each of which has broken some program."""

LARGE = 5_000_000


@dataclass(frozen=True, slots=True)
class Hostile:
    """A payload, and what its command line must be; None where it is no row."""

    payload: bytes
    text: str | None


def hostile(wanted: int, seed: int) -> list[Hostile]:
    """Return so many payloads, each valid one with an identity of its own."""
    random, numbers = Random(seed), count()  # noqa: S311  # no secret, and to be repeated
    made = [
        Hostile(_clean(next(numbers), text=json.dumps("x" * LARGE).encode()), "x" * LARGE),
        Hostile(b'{"CommandLine": "' + b"y" * LARGE, None),
    ]
    valid, broken = _valid(numbers, random), _broken(numbers, random)
    for turn in cycle("vbb"):
        if len(made) == wanted:
            return made
        made.append(next(valid if turn == "v" else broken))
    raise AssertionError


def _clean(
    number: int, text: bytes = b'"whoami"', pid: bytes = b"4711", more: bytes = b""
) -> bytes:
    return (
        b'{"ProcessGuid": "g%d", "UtcTime": "%s", "Computer": "c1", "Image": "/bin/sh", '
        b'"ProcessId": %s, "CommandLine": %s%s}' % (number, MOMENT.encode(), pid, text, more)
    )


def _valid(numbers: Iterator[int], random: Random) -> Iterator[Hostile]:
    for text in cycle(NAUGHTY):
        sent = random.choice(("", "~")) + text + random.choice(("", "\u00e9", text[:100]))
        written = json.dumps(sent, ensure_ascii=random.random() < 0.5).encode()
        more = random.choice(
            (
                b"",
                b', "extra": {"a": [1e300, null]}',
                b', "deep": ' + b"[" * 300 + b"]" * 300,
                b', "' + json.dumps(sent[:1_000]).encode()[1:-1] + b'": 1',
            )
        )
        yield Hostile(_clean(next(numbers), text=written, more=more), sent)


def _broken(numbers: Iterator[int], random: Random) -> Iterator[Hostile]:
    ways = (
        lambda p: p + b" x",
        lambda p: p + p,
        lambda p: p + b",",
        lambda p: b"[" + p + b"]",
        lambda p: b"\xef\xbb\xbf" + p,
        lambda p: p.replace(b'"', b"'"),
        lambda p: b"/* c */" + p,
        lambda p: p.replace(b"4711", b"4711 // c\n"),
        lambda p: p.replace(b"4711", b"NaN"),
        lambda p: p.replace(b"4711", b"-Infinity"),
        lambda p: p.replace(b"4711", b'"4711"'),
        lambda p: p.replace(b'"whoami"', b"17"),
        lambda p: p.replace(b'"whoami"', b'{"a": "whoami"}'),
        lambda p: p.replace(b"4711", b"1e400"),
        lambda p: p.replace(b"4711", b"9" * 400),
        lambda p: p.replace(b"4711", b"9223372036854775808"),
        lambda p: p.replace(b"4711", b"1.5"),
        lambda p: p.replace(b"4711", b"0x10"),
        lambda p: p.replace(b"4711", b"+1"),
        lambda p: p.replace(b"4711", b"01"),
        lambda p: p.replace(b"4711", b"true"),
        lambda p: p.replace(b"4711", b"[4711]"),
        lambda p: p.replace(b"4711", b"["),
        lambda p: p.replace(b"4711", b"[" * 5_000 + b"]" * 5_000),
        lambda p: p.replace(b"whoami", b"who\xc3\x28ami"),
        lambda p: p.replace(b"whoami", b"who\xed\xa0\x80ami"),
        lambda p: p.replace(b"whoami", b"who\xf8\x88\x80\x80\x80"),
        lambda p: p.replace(b"whoami", b"who\nami"),
        lambda p: p.replace(b"whoami", b"who\x00ami"),
        lambda p: p.replace(b"whoami", b"who\\ud800ami"),
        lambda p: p.replace(b"whoami", b"\\udc00\\ud800"),
        lambda p: p.replace(b"whoami", b"who\\xami"),
        lambda p: p.replace(b"whoami", b"who\\u12"),
        lambda p: p.replace(MOMENT.encode(), b"2026-13-45T99:00:00Z"),
        lambda p: p.replace(MOMENT.encode(), b"yesterday"),
        lambda p: p.replace(b'"ProcessGuid"', b"ProcessGuid"),
        lambda p: p.replace(b'"c1",', b'"c1",,'),
        lambda p: p[: random.randrange(len(p))],
        lambda _: bytes(random.randrange(256) for _ in range(random.randrange(1, 200))),
        lambda p: p.decode().encode("utf-16"),
        lambda p: p.decode().encode("utf-32-be"),
        lambda _: b"",
        lambda _: b" \n\t",
        lambda _: b"null",
        lambda _: b"{}" * 3,
        lambda _: b'"just text"',
        lambda _: b"<event/>",
        lambda _: b"\x00" * 64,
        lambda _: b"[" * 100_000,
        lambda _: b'{"a":' * 20_000,
        lambda _: b"\x1f\x8b\x08\x00not gzip",
    )
    for spoil in cycle(ways):
        yield Hostile(spoil(_clean(next(numbers))), None)
