r"""Sigma rules and events for them, from a seed: as many as asked for, shaped as public collections are.

Nine of ten rules name a program (or a port), few of them popular and most of them rare, and ask something of the command
line; the tenth asks the command line alone. Events run programs of the same list and of a longer one that no rule
names, with arguments of which some are what rules look for.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from strandline.alerting.alert_rule import AlertRule
from strandline.alerting.sigma import read_rule

Document = dict[str, Any]
Event = tuple[object, ...]

POPULAR = [
    "powershell",
    "cmd",
    "rundll32",
    "regsvr32",
    "wmic",
    "certutil",
    "mshta",
    "wscript",
    "cscript",
    "schtasks",
    "net",
    "sc",
    "reg",
    "msiexec",
    "bitsadmin",
    "vssadmin",
    "curl",
    "whoami",
    "nltest",
    "explorer",
    "svchost",
]
PROGRAMS = 300
OTHERS = 1_000
WORDS = 3_000
ONE_IN = 50
FOLDERS = (
    r"C:\Windows\System32",
    r"C:\Windows\SysWOW64",
    r"C:\Program Files\Vendor",
    r"C:\Users\Public\Downloads",
    r"C:\Users\user\AppData\Local\Temp",
)
SWITCHES = ("-", "/", "--", " -", " /", "\\")
SYLLABLES = [
    "ad",
    "al",
    "an",
    "ar",
    "at",
    "cor",
    "cre",
    "dec",
    "den",
    "du",
    "el",
    "en",
    "er",
    "ex",
    "fi",
    "gen",
    "hi",
    "in",
    "ker",
    "lo",
    "mi",
    "ne",
    "or",
    "pa",
    "qu",
    "re",
    "si",
    "ta",
    "un",
    "ver",
]
PORTS = (22, 53, 80, 123, 443, 445, 993, 3389, 8080, 8443)
BASE64 = r"[A-Za-z0-9+/]{60,}={0,2}"


class Maker:
    """Everything from one seed."""

    def __init__(self, seed: int) -> None:
        """Choose the words of all rules and events."""
        self._chance = random.Random(seed)  # noqa: S311  # no secret
        rare = (self._word(3) for _ in range(PROGRAMS - len(POPULAR)))
        self.programs = [f"{name}.exe" for name in (*POPULAR, *rare)]
        self.others = [f"{self._word(4)}.exe" for _ in range(OTHERS)]
        self.words = [self._argument() for _ in range(WORDS)]
        rare = tuple(self.words)
        usual = (self._argument() for _ in range(3 * WORDS))
        self.usual = [each for each in usual if not any(word in each for word in rare)]

    def rules(self, number: int, table: str = "process") -> list[AlertRule]:
        """Return rules about one table."""
        written = self.documents(number, table)
        return [read_rule(each, f"{table}-{n}.yml") for n, each in enumerate(written)]

    def documents(self, number: int, table: str = "process") -> list[Document]:
        """Return the same rules as they are written in YAML."""
        makers = {"process": self._process, "network": self._network}
        return [makers[table](n) for n in range(number)]

    def events(self, number: int, table: str = "process") -> Iterator[Event]:
        """Yield rows of the table, in the order of its declared columns."""
        make = {"process": self._start, "network": self._connection}[table]
        return (make(n) for n in range(number))

    # Rules.

    def _process(self, number: int) -> Document:
        chance = self._chance
        detection: Document = {}
        if number % 10:  # the tenth has no program, and so no key
            field = chance.choice(("Image", "Image", "Image", "ParentImage"))
            names = {self._program() for _ in range(chance.choice((1, 1, 1, 2, 3)))}
            detection["program"] = {f"{field}|endswith": [f"\\{name}" for name in sorted(names)]}
        detection["line"] = self._line(few=bool(number % 10))
        condition = " and ".join(detection)
        if chance.random() < 0.3:
            detection["filter"] = {"Image|startswith": chance.choice(FOLDERS) + "\\"}
            condition += " and not filter"
        return _document(number, "process_creation", detection, condition)

    def _line(self, *, few: bool) -> Document:
        """Return what a rule asks of the command line."""
        chance, word = self._chance, lambda: chance.choice(self.words)
        shapes: list[tuple[float, Callable[[], Document]]] = [
            (0.40, lambda: {"CommandLine|contains": _several(chance, word, 4 if few else 12)}),
            (0.25, lambda: {"CommandLine|contains|all": _several(chance, word, 4)}),
            (0.10, lambda: {"CommandLine|endswith": word()}),
            (0.10, lambda: {"CommandLine|contains": f"{word()}*{word()}"}),
            (0.07, lambda: {"CommandLine|re": rf"{self._word(2)}\w+\s+-[a-z]{{2,5}}\s"}),
            (0.03, lambda: {"CommandLine|re": BASE64}),
            (0.05, lambda: {"CommandLine|windash|contains": f" -{self._word(2)} "}),
        ]
        weights, makers = zip(*shapes, strict=True)
        (chosen,) = chance.choices(makers, weights)
        return chosen()

    def _network(self, number: int) -> Document:
        chance = self._chance
        detection: Document = {}
        if number % 10:
            ports = sorted(
                {chance.randrange(1024, 60_000) for _ in range(chance.choice((1, 1, 3)))}
            )
            detection["port"] = {"DestinationPort": ports}
        where = [f"{chance.randrange(1, 224)}.{chance.randrange(256)}.0.0/16" for _ in range(3)]
        detection["to"] = chance.choice(
            (
                {"DestinationIp|cidr": where},
                {"DestinationIp|startswith": f"{chance.randrange(1, 224)}."},
                {"bytes_out|gte": chance.randrange(10**6, 10**9)},
            )
        )
        condition = " and ".join(detection)
        if chance.random() < 0.5:
            detection["inside"] = {
                "DestinationIp|cidr": ["10.0.0.0/8", "192.168.0.0/16", "fe80::/10"]
            }
            condition += " and not inside"
        return _document(number, "network_connection", detection, condition)

    # Events.

    def _start(self, number: int) -> Event:
        chance = self._chance
        image, parent = (f"{chance.choice(FOLDERS)}\\{self._any_program()}" for _ in range(2))
        words = self.usual if number % ONE_IN else self.words
        line = f"{image} " + " ".join(chance.choices(words, k=chance.randrange(1, 16)))
        at = None
        user = f"CORP\\user-{number % 500:05}"
        return (f"guid-{number}", at, "dev-1", user, image, line, parent, parent, number, "")

    def _connection(self, number: int) -> Event:
        chance = self._chance
        host = f"10.{number % 7}.{number % 251}.{number % 253}"
        far = ".".join(str(chance.randrange(1, 224)) for _ in range(4))
        port = chance.choice(PORTS) if chance.random() < 0.9 else chance.randrange(1024, 60_000)
        sizes = (chance.randrange(10**7), chance.randrange(10**7))
        return (f"connection-{number}", host, far, port, *sizes, None)

    # Words.

    def _program(self) -> str:
        """Return a program that rules name: the first of the list are in every second rule."""
        popular = self._chance.random() < 0.5
        return self._chance.choice(self.programs[: len(POPULAR)] if popular else self.programs)

    def _any_program(self) -> str:
        return self._program() if self._chance.random() < 0.3 else self._chance.choice(self.others)

    def _word(self, syllables: int) -> str:
        return "".join(self._chance.choices(SYLLABLES, k=syllables))

    def _argument(self) -> str:
        return self._chance.choice(SWITCHES) + self._word(self._chance.randrange(2, 5))


def _several(chance: random.Random, word: Callable[[], str], most: int) -> list[str]:
    return sorted({word() for _ in range(chance.randrange(1, most + 1))})


def _document(number: int, category: str, detection: Document, condition: str) -> Document:
    return {
        "title": f"Generated rule {number}",
        "id": f"00000000-0000-4000-8000-{number:012}",
        "logsource": {"category": category},
        "level": "medium",
        "detection": {**detection, "condition": condition},
    }
