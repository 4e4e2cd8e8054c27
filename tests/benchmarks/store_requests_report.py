"""The report on requests to an object store: how many a micro-batch takes, before and after, in a young lake and in an old one."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

BEFORE, AFTER = "before", "after"
FILE = "store_requests"
METHODS = ("PUT", "COPY", "LIST", "GET", "HEAD", "DELETE")
DOLLARS = {"PUT": 5.0, "COPY": 5.0, "LIST": 5.0, "GET": 0.4, "HEAD": 0.4, "DELETE": 0.0}
"""The list price of a million requests, of Amazon S3 in most regions."""
WANTED = 1.1
"""How many times the requests of a young lake an old one may take; a round more of a lease or of a heartbeat is noise."""
METHOD = """\
A real S3 server (SeaweedFS) and a real broker on loopback. Bronze, silver (with its quarantine) and gold are each a stream in a program of its own, \
which reaches the server through a relay that counts, so a request belongs to the layer that made it. A hundred readings are sent every {every:.0f} s, \
a batch every {every:.0f} s takes them, after {warm}. All requests of that time count: those of the batch, of the trigger that finds it, and of the clock \
(heartbeat, lease, the look at the books). Then nothing is sent for half a minute.
The older lake was written commit by commit and maintained at its times (tests/support/aged_lake.py), and copied to the server.
Dollars: what a million batches cost in requests at the list price, 5 $ for a million of PUT, COPY and LIST, 0.4 $ of GET and HEAD.
"""

Kind = tuple[str, str, str]
"""Method, part of the lake, program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What the stream of one table asked of the server.

    Args:
        table: Which.
        age: The commits of the lake with which it began.
        batches: The commits that it made meanwhile.
        seconds: How long.
        requests: How many of each kind.
        idle_seconds: How long nothing came after that.
        idle: How many of each kind meanwhile.
    """

    table: str
    age: int
    batches: int
    seconds: float
    requests: Counter[Kind]
    idle_seconds: float
    idle: Counter[Kind]

    @property
    def layer(self) -> str:
        """Return the layer of the table."""
        return self.table.partition(".")[0]

    @property
    def each(self) -> float:
        """Return the requests of a batch."""
        return self.requests.total() / self.batches

    @property
    def idle_each(self) -> float:
        """Return the requests of an idle minute."""
        return self.idle.total() * 60 / self.idle_seconds

    @property
    def dollars(self) -> float:
        """Return what a million batches cost in requests."""
        return sum(DOLLARS[kind[0]] * n for kind, n in self.requests.items()) / self.batches

    def by_method(self) -> dict[str, float]:
        """Return the requests of a batch by their method."""
        found: Counter[str] = Counter()
        for (method, _, _), n in self.requests.items():
            found[method] += n
        return {method: found[method] / self.batches for method in METHODS}

    def by_part(self) -> dict[tuple[str, str], Counter[str]]:
        """Return the requests of all batches by the part of the lake and the program."""
        found: dict[tuple[str, str], Counter[str]] = {}
        for (method, part, program), n in self.requests.items():
            found.setdefault((part, program), Counter())[method] += n
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of the benchmark."""

    name: str
    commit: str
    machine: Mapping[str, object]
    every: float
    warm: int
    counted: Sequence[Counted]

    @property
    def ages(self) -> list[int]:
        """Return the ages of its lakes."""
        return sorted({each.age for each in self.counted})

    def of(self, table: str, age: int) -> Counted:
        """Return what was counted of a table."""
        return next(each for each in self.counted if (each.table, each.age) == (table, age))


@dataclass(frozen=True, slots=True)
class Report:
    """The last measurement of each name."""

    found: Mapping[str, Measurement] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Report":
        """Return what was written."""
        file = folder / f"{FILE}.json"
        if not file.exists():
            return cls()
        known = json.loads(file.read_text())
        return cls({each["name"]: _measurement(each) for each in known})

    def having(self, measurement: Measurement) -> "Report":
        """Return the report with a measurement in the place of the former one of its name, lake by lake."""
        former = self.found.get(measurement.name)
        kept = (
            [each for each in former.counted if each.age not in measurement.ages] if former else []
        )
        counted = sorted([*kept, *measurement.counted], key=lambda each: each.age)
        found = replace(measurement, counted=counted)
        return replace(self, found={**self.found, measurement.name: found})

    def write(self, folder: Path) -> None:
        """Write the figures and the page."""
        words = [_encoded(self.found[name]) for name in (BEFORE, AFTER) if name in self.found]
        (folder / f"{FILE}.json").write_text(json.dumps(words, indent=1) + "\n")
        (folder / f"{FILE}.md").write_text(self.page())

    @property
    def newest(self) -> Measurement:
        """Return what is reported; the other one is what it is compared with."""
        return self.found.get(AFTER) or self.found[BEFORE]

    def missed(self) -> list[str]:
        """Return the tables that take more requests in an old lake than in a young one."""
        return [
            f"{table}: {old / young:.2f}"
            for table, young, old in self._by_age()
            if old > WANTED * young
        ]

    def page(self) -> str:
        """Return the page in Markdown."""
        newest, before = self.newest, self.found.get(BEFORE)
        facts = ", ".join(f"{name} {value}" for name, value in newest.machine.items())
        missed = self.missed()
        compared = f", before at {before.commit}" if before else ""
        return "\n".join(
            [
                "# Requests to an object store",
                "",
                f"Made by `python -m tests.benchmarks.store_requests` at commit {newest.commit}{compared}.",
                f"Machine: {facts}.",
                "",
                METHOD.format(every=newest.every, warm=f"{newest.warm} batches before them"),
                "## A micro-batch of 100 rows",
                "",
                *self._batches(),
                "",
                "## From a young lake to an old one",
                "",
                f"Target: an old lake ≤ {WANTED} times a young one. {'Missed: ' + ', '.join(missed) if missed else 'Reached'}.",
                "",
                *self._ages(),
                "",
                "## What they are of",
                "",
                f"Requests of a batch in the lake of {newest.ages[-1]:,} commits.",
                "",
                *self._parts(),
                "",
            ]
        )

    def _by_age(self) -> Iterator[tuple[str, float, float]]:
        found = self.newest
        young, old = found.ages[0], found.ages[-1]
        for table in _tables(found):
            yield table, found.of(table, young).each, found.of(table, old).each

    def _batches(self) -> Iterator[str]:
        yield f"| layer | | all | {' | '.join(METHODS)} | $ for a million batches | an idle minute |"
        yield "|---|---|---:|" + "---:|" * (len(METHODS) + 2)
        for table in _tables(self.newest):
            for name in (BEFORE, AFTER):
                if name not in self.found:
                    continue
                each = self.found[name]
                found = each.of(table, each.ages[-1])
                methods = " | ".join(f"{n:.1f}" for n in found.by_method().values())
                yield (
                    f"| {found.layer} | {name} | {found.each:.1f} | {methods} | {found.dollars:,.0f} | {found.idle_each:,.0f} |"
                )

    def _ages(self) -> Iterator[str]:
        ages = self.newest.ages
        yield f"| table | {' | '.join(f'{age:,} commits' for age in ages)} | ratio |"
        yield "|---|" + "---:|" * (len(ages) + 1)
        for table, young, old in self._by_age():
            yield f"| {table} | {young:.1f} | {old:.1f} | {old / young:.2f} |"

    def _parts(self) -> Iterator[str]:
        yield "| layer | part of the lake | program | before | after | of these |"
        yield "|---|---|---|---:|---:|---|"
        for table in _tables(self.newest):
            found = {name: each.of(table, each.ages[-1]) for name, each in self.found.items()}
            keys = {key for each in found.values() for key in each.by_part()}
            for key in sorted(keys):
                counts = {
                    name: each.by_part().get(key, Counter[str]()) for name, each in found.items()
                }
                totals = {name: counts[name].total() / found[name].batches for name in found}
                newest = AFTER if AFTER in found else BEFORE
                kinds = ", ".join(
                    f"{n / found[newest].batches:.1f} {method}"
                    for method, n in counts[newest].most_common()
                )
                cells = (
                    f"{totals[name]:.1f}" if name in totals else "-" for name in (BEFORE, AFTER)
                )
                yield f"| {table.partition('.')[0]} | {key[0]} | {key[1]} | {' | '.join(cells)} | {kinds} |"


def _tables(found: Measurement) -> list[str]:
    return list(dict.fromkeys(each.table for each in found.counted))


def _encoded(found: Measurement) -> dict[str, object]:
    return {
        "name": found.name,
        "commit": found.commit,
        "machine": found.machine,
        "every": found.every,
        "warm": found.warm,
        "counted": [
            {
                "table": each.table,
                "age": each.age,
                "batches": each.batches,
                "seconds": round(each.seconds, 1),
                "requests": [[*kind, n] for kind, n in sorted(each.requests.items())],
                "idle_seconds": round(each.idle_seconds, 1),
                "idle": [[*kind, n] for kind, n in sorted(each.idle.items())],
            }
            for each in found.counted
        ],
    }


def _measurement(words: Mapping[str, object]) -> Measurement:
    counted = words["counted"]
    assert isinstance(counted, list)
    kinds = ("requests", "idle")
    return Measurement(
        **{  # type: ignore[arg-type]  # as it was encoded
            **words,
            "counted": [
                Counted(**{**each, **{name: _counts(each[name]) for name in kinds}})
                for each in counted
            ],
        }
    )


def _counts(words: Sequence[tuple[str, str, str, int]]) -> Counter[Kind]:
    return Counter({(method, part, program): n for method, part, program, n in words})
