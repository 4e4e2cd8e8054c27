"""The play of a project: its options are those of the verb, and what it expects is printed and compared with the ledger."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strandline.cli.screen import as_typed
from strandline.core.errors import DataError, DefinitionError
from strandline.core.topic import RECEIVED, Counts
from strandline.engine.accounting.balance_sheet import Balance
from strandline.engine.kafka.broker import topics
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from strandline.operate.demo import Truth, refuse_untruth
from tests.cli.typed import Answer, strandline
from tests.support.by_hand import commit, create

TOPIC = '''"""Parcels."""

from strandline import Ingested, Topic

TABLE = Ingested(name="parcels", reads=(Topic(name="parcels", partitions=2),))
'''
OTHERS = '''"""Letters, and a topic to which no event of play goes."""

from strandline import Ingested, Topic

TABLE = Ingested(
    name="letters",
    reads=(Topic(name="TOPIC", partitions=2), Topic(name="TOPIC-silent", partitions=2)),
)
'''
PLAIN = '''"""Parcels of play."""

from strandline import Record


def events(count, until):
    for number in range(count):
        yield Record(topic="parcels", key=b"p", value=b"%d" % number, arrived_at=until)
'''
FORESEEN = '''"""Parcels of play, some of them broken."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

from strandline import Counts, Record


@dataclass
class Parcels:
    count: int
    until: datetime
    every: int
    apart: timedelta
    broken: int = 0
    taken: int = 0

    def __iter__(self) -> Iterator[Record]:
        for number in range(self.count):
            is_broken = number % self.every == 0
            self.taken += 1
            self.broken += is_broken
            yield Record(
                topic="parcels",
                key=b"p%d" % number,
                value=b"no parcel" if is_broken else b"{}",
                arrived_at=self.until - self.apart * (self.count - number),
            )

    def expected(self) -> dict[str, Counts]:
        held = {"malformed": self.broken}
        return {
            "bronze.parcels": Counts(good=self.taken),
            "silver.parcels": Counts(good=self.taken - self.broken, quarantined=held),
        }


def events(
    count: int,
    until: datetime,
    *,
    every: Annotated[int, "One parcel in so many is broken.", (1, 50)] = 10,
    apart: Annotated[timedelta, "The time from one to the next."] = timedelta(seconds=1),
    since: datetime | None = None,
    noisy: bool = False,
) -> Parcels:
    """Return parcels."""
    assert since is None or since.tzinfo is not None
    return Parcels(count, until, every, apart)
'''

WEIGHED = '''"""Parcels with their weight."""

from pyspark.sql.types import DoubleType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, required

from post.bronze import parcels as bronze

FIELDS = (
    StructType().add("id", StringType()).add("at", TimestampType()).add("weight", DoubleType())
)


def parcels(events):
    (topic,) = bronze.TABLE.topics
    return topic.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())


TABLE = Judged(
    name="parcels",
    reads=(bronze.TABLE,),
    transform=parcels,
    key=("id",),
    event_at="at",
    rules=required("id", "at", "weight", max_failed=1.0),
)
'''
MISTAKEN = '''"""Parcels of play; one has no weight, and it expects all of them to be good."""

import json

from strandline import Counts, Record


class Parcels(list):
    def expected(self):
        return {"silver.parcels": Counts(good=len(self))}


def events(count, until):
    parcels = [{"id": str(number), "at": until.isoformat(), "weight": 2.5} for number in range(count)]
    del parcels[0]["weight"]
    return Parcels(
        Record(topic="parcels", key=b"p", value=json.dumps(each).encode(), arrived_at=until)
        for each in parcels
    )
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project of one's own with a topic."""
    return post(tmp_path_factory.mktemp("project"))


def post(root: Path) -> Path:
    (root / "strandline.toml").write_text('[project]\ntables = "post"\n')
    (root / "post" / "bronze").mkdir(parents=True)
    for package in ("post", "post/bronze"):
        (root / package / "__init__.py").write_text('"""Post."""\n')
    (root / "post/bronze/parcels.py").write_text(TOPIC)
    return root


@pytest.fixture(scope="module")
def broker(project: Path) -> Iterator[Path]:
    """Return the project while its lake has a broker."""
    strandline("up", cwd=project).succeeded()
    yield project
    strandline("down", cwd=project).succeeded()


def typed(project: Path, play: str, *words: object) -> Answer:
    (project / "post/play.py").write_text(play)
    return strandline(*words, cwd=project)


@pytest.mark.whole
@pytest.mark.kafka
def test_options_of_a_play_are_options_of_the_verb_and_its_counts_are_written(broker: Path) -> None:
    """As those of the example are, by the same code."""
    truth = broker / "truth.json"
    words = ("--events", 100, "--every", 20, "--apart", "2s", "--since", "2026-11-01", "--noisy")

    answer = typed(broker, FORESEEN, "produce", *words, "--truth", truth, "--json").succeeded()

    found = json.loads(truth.read_text())
    assert found["topics"] == {"parcels": 100}
    assert (found["plan"]["every"], found["plan"]["apart"], found["plan"]["noisy"]) == (20, 2, True)
    assert found["tables"] == {
        "bronze.parcels": {"good": 100, "duplicates": 0, "quarantined": {}},
        "silver.parcels": {"good": 95, "duplicates": 0, "quarantined": {"malformed": 5}},
    }
    assert isinstance(answer.json, dict)
    assert {name: answer.json[name] for name in found} == found


def on_cluster(broker: Path) -> str:
    """Return the address of a broker as a cluster of one's own: another lake names it."""
    address = strandline("up", "--json", cwd=broker).succeeded().json
    assert isinstance(address, dict)
    return str(address["address"])


@contextmanager
def letters(project: Path, topic: str) -> Iterator[None]:
    """Let the project have a second table, of a topic of this name and one to which nothing is sent; play goes to the first."""
    module = project / "post/bronze/letters.py"
    module.write_text(OTHERS.replace("TOPIC", topic))
    (project / "post/play.py").write_text(PLAIN.replace('topic="parcels"', f'topic="{topic}"'))
    yield
    module.unlink()


@pytest.mark.whole
@pytest.mark.kafka
def test_on_a_cluster_of_others_a_topic_is_made_with_consent_and_only_one_that_gets_events(
    broker: Path, tmp_path: Path
) -> None:
    """All declared topics were made on it, those without an event too, and without a question."""
    address = on_cluster(broker)
    env = {"STRANDLINE_KAFKA": address, "STRANDLINE_LAKE": str(tmp_path / "lake")}

    with letters(broker, "letters"):
        refused = strandline("produce", "--events", 3, cwd=broker, env=env)
        before = topics(address, {})
        strandline("produce", "--events", 3, "--make-topics", cwd=broker, env=env).succeeded()
        after = topics(address, {})

    assert refused.code == 2, refused.printed
    assert f"the topic letters does not exist at {address}; no event was sent" in refused.err
    assert "create it with 2 partitions" in refused.err
    assert {name: after[name] for name in {*after} - {*before}} == {"letters": 2}


@pytest.mark.whole
@pytest.mark.kafka
@pytest.mark.parametrize("where", ["own", "cluster"])
def test_a_topic_that_was_read_and_deleted_is_not_made_anew(
    broker: Path, tmp_path: Path, where: str
) -> None:
    """Its new records would have the places of those that were read."""
    address, name = on_cluster(broker), f"gone-{where}"
    others = {"STRANDLINE_KAFKA": address, "STRANDLINE_LAKE": str(tmp_path)}
    lake = Lake(Place.of(str(broker / ".lake" if where == "own" else tmp_path)))
    table = lake.root / "bronze" / "letters"
    read = Entry(
        table="bronze.letters",
        mode="stream",
        stream=f"{name}@a1",
        batch=3,
        source=name,
        offsets={f"{name}/0": (0, 7)},
    )
    create(table, RECEIVED)
    commit(table, [], read.encoded())

    with letters(broker, name):
        words = ("produce", "--events", 3, "--make-topics")
        refused = strandline(*words, cwd=broker, env={} if where == "own" else others)
    table.remove()

    assert refused.code == 2, refused.printed
    assert f"the topic {name} does not exist at {address} any more" in refused.err
    assert "bronze.letters has read it" in refused.err
    assert "do not make it anew" in refused.err
    assert name not in topics(address, {})


@pytest.mark.whole
@pytest.mark.kafka
def test_counts_of_a_play_that_does_not_say_them_are_refused(broker: Path) -> None:
    """Before anything is sent; without them the same play is sent."""
    refused = typed(broker, PLAIN, "produce", "--events", 7, "--truth", "truth.json")
    sent = typed(broker, PLAIN, "produce", "--events", 7, "--json").succeeded()

    assert refused.code == 2
    assert "post.play does not say what becomes of its events" in refused.err
    assert "a method `expected()`" in refused.err
    assert isinstance(sent.json, dict)
    assert (sent.json["topics"], sent.json["events"]) == ({"parcels": 7}, 7)
    assert "tables" not in sent.json


@pytest.mark.whole
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ('topic="parcels"', "the play sends to the topic letters, which no table reads"),
        ("yield Record(topic", "the play yields {'topic'"),
        ("for number in range(count):", "post/play.py:7: ZeroDivisionError"),
    ],
)
def test_a_record_that_is_none_is_a_sentence(wrong: str, sentence: str, broker: Path) -> None:
    """A play is a module of its project: its mistakes are named as those of a table are."""
    right = {
        'topic="parcels"': 'topic="letters"',
        "yield Record(topic": "yield dict(topic",
        "for number in range(count):": "1 / 0\n    for number in range(count):",
    }

    answer = typed(broker, PLAIN.replace(wrong, right[wrong]), "produce", "--events", 3)

    assert answer.code == 2, answer.printed
    assert sentence in answer.err


@pytest.mark.whole
def test_the_help_has_the_options_of_the_play(project: Path) -> None:
    """With what they are about, and with their bounds."""
    page = " ".join(typed(project, FORESEEN, "produce", "--help").succeeded().out.split())
    outside = typed(project, FORESEEN, "produce", "--every", 51)

    assert "One parcel in so many is broken. [default: 10; 1<=x<=50]" in page
    assert "--apart <time> The time from one to the next." in page
    assert "--noisy" in page
    assert outside.code == 2
    assert "less than or equal to 50" in outside.err


@pytest.mark.whole
@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("rate: float = 1.0", "rate of events has the name of an option that every play has"),
        ("size: int", "size of events has no default"),
        ("sizes: list[int] = ()", "sizes of events has a type that no option has"),
    ],
)
def test_an_argument_that_is_no_option_is_refused(
    argument: str, sentence: str, project: Path
) -> None:
    """By both verbs, before anything starts; the help of all verbs goes on."""
    play = PLAIN.replace("(count, until)", f"(count, until, *, {argument})")

    answers = [typed(project, play, *words) for words in (("produce", "--size", 1), ("demo",))]

    for answer in answers:
        assert answer.code == 2
        assert f"post.play: the argument {sentence}" in answer.err
    assert " produce " in strandline("--help", cwd=project).succeeded().out


@pytest.mark.parametrize(
    ("at", "on_path", "typed"),
    [
        ("tools/strandline", True, "strandline"),
        ("tools/strandline", False, "tools/strandline"),
        ("my tools/strandline", False, "'my tools/strandline'"),
    ],
)
def test_what_is_tried_next_is_typed_as_the_demo_was(
    at: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, on_path: bool
) -> None:
    """It was `.venv/bin/strandline`, which is not there for who has installed the wheel."""
    program = tmp_path / at
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent) if on_path else "")
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])

    assert as_typed() == typed


def test_the_ledger_is_compared_with_what_the_play_expects() -> None:
    """A demo in which both the table and the play are wrong in one way would be green."""
    plan: dict[str, object] = {}
    bronze, silver = "bronze.device_telemetry", "silver.device_telemetry"
    counts = Counts(good=95, quarantined={"malformed": 5})
    truth = Truth(plan=plan, topics={}, tables={bronze: Counts(good=100), silver: counts})
    right = Balance(table=silver, good=95, quarantined={"malformed": 5})
    wrong = Balance(table=silver, good=96, quarantined={"malformed": 4})
    unknown = Truth(plan=plan, topics={}, tables={"silver.device_telemetri": counts})

    refuse_untruth([right], truth)
    refuse_untruth([wrong], Truth(plan=plan, topics={}, tables=None))
    with pytest.raises(
        DataError, match=r"has \{'good': 96, .*but the play expects \{'good': 95"
    ) as caught:
        refuse_untruth([wrong], truth)
    with pytest.raises(DefinitionError, match=r"there is no table silver\.device_telemetri"):
        refuse_untruth([right], unknown)

    assert caught.value.exit_code == 4


@pytest.mark.whole
@pytest.mark.kafka
@pytest.mark.slow
def test_a_demo_whose_ledger_is_not_what_its_play_expects_does_not_say_that_it_balances(
    tmp_path: Path,
) -> None:
    """Though each event is in one place: the ledger is printed, and then the difference."""
    project = post(tmp_path)
    (project / "post" / "silver").mkdir()
    (project / "post" / "silver" / "__init__.py").write_text('"""Post."""\n')
    (project / "post" / "silver" / "parcels.py").write_text(WEIGHED)

    answer = typed(project, MISTAKEN, "demo", "--events", 20)

    assert answer.code == DataError.exit_code, answer.printed
    found = "{'good': 19, 'duplicates': 0, 'quarantined': {'missing:weight': 1}}"
    assert (
        f"the ledger of silver.parcels has {found}, but the play expects {{'good': 20" in answer.err
    )
    assert "silver.parcels" in answer.out
    assert "balanced:" not in answer.out
