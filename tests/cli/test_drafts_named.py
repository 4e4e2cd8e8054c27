"""What a draft proposes is taken when it is typed: names of tables, kinds in quotes, and the way on after a refusal."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from strandline.cli.verbs import project
from strandline.core.errors import DefinitionError
from strandline.core.topic import Topic
from strandline.engine.ask.locate import Sample, Seen
from strandline.engine.kafka.broker import down, up
from strandline.engine.lake.lake import Lake
from strandline.operate.drafts import draft, draft_table, scaffold
from strandline.operate.drafts.draft_table import NEEDED, Draft, silver
from strandline.operate.drafts.sampled_topic import Format, format_of, look
from tests.architecture import tree
from tests.cli.inside import succeeded
from tests.engine.records import make
from tests.support.foreign_topics import BEGIN


def refusal(topic: str, *table: str) -> DefinitionError:
    """Return how a draft is refused, before anything of Kafka is asked."""
    with pytest.raises(DefinitionError) as refused:
        draft.new_topic(topic, 10, None, *table)
    return refused.value


def test_a_name_that_no_file_can_have_is_refused_with_a_hint() -> None:
    """A topic of Kafka may have 249 letters; that was an error of the file system."""
    found = refusal("x" * 249)

    assert "at most" in found.message
    (line,) = [each for each in found.hint.split("`") if each.startswith("strandline new topic")]
    assert scaffold.is_free(shlex.split(line)[-1])
    with pytest.raises(DefinitionError, match="cannot be written"):
        list(scaffold.put(scaffold.root(), {Path("tests", "x" * 300): ""}))


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("class", "topic_class"),
        ("2024", "topic_2024"),
        ("2024-orders", "orders"),
        ("__", "topic"),
        ("list", "topic_list"),
    ],
)
def test_a_topic_of_any_name_gets_a_table(topic: str, name: str) -> None:
    """The topic's name is what Kafka has, so it cannot be chosen; that of the table can."""
    assert draft.bronze_name(topic) == name
    assert scaffold.is_free(name)


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("device-telemetry", "bronze.device_telemetry reads topic device-telemetry already"),
        ("device.telemetry", "bronze.device_telemetry is the table of topic device-telemetry"),
    ],
)
def test_a_second_draft_of_a_topic_says_what_is_there_and_what_to_type(
    topic: str, message: str
) -> None:
    """Of the same topic a table above is wanted; of a topic that is written nearly alike another name."""
    found = refusal(topic)

    assert message in found.message
    leads = "new silver" if topic == "device-telemetry" else "--table device_telemetry_2`"
    assert leads in found.hint


@pytest.mark.parametrize("topic", ["meters.telemetry", "class", "2024"])
def test_a_topic_whose_name_no_module_has_is_led_to_its_records(topic: str) -> None:
    """Without the option the name is the module's, and the option was named nowhere."""
    with pytest.raises(DefinitionError) as refused:
        project.new_topic(topic)

    assert f"`strandline new topic {topic} --from-topic`" in refused.value.hint


def test_a_topic_that_is_not_there_is_answered_with_those_that_are() -> None:
    """No table declares it, so `strandline up` would not create it."""
    near = draft.no_such_topic("nosuch-order", ["orders", "nosuch-orders", "__consumer_offsets"])
    none = draft.no_such_topic("orders", [])

    assert "topic nosuch-order does not exist" in near.message
    assert near.hint.startswith("did you mean nosuch-orders")
    assert "__consumer_offsets" not in near.hint
    assert "strandline up" not in near.hint
    assert "has no topic" in none.hint


def typed_for(bronze: str, *kinds: str, used: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the names and the kinds that the lines after the draft of a topic have, as a shell reads them."""
    found = []
    for line in draft.after_topic(bronze, kinds, used):
        words = shlex.split(line)
        takes = [each for each in words if each.startswith("--takes=")]
        kind = takes[0].removeprefix("--takes=") if takes else words[words.index("--takes") + 1]
        found.append((words[3], kind))
    return found


KINDS = [
    ("PaymentBooked", "payment_booked"),
    ("заказ", "shop_kind_1"),
    ("'", "shop_kind_1"),
    ('it\'s "x" $(y)', "it_s_x_y"),
    ("required", "shop_required"),
    ("timedelta", "shop_timedelta"),
    ("class", "shop_class"),
    ("--help", "shop_help"),
    ("-7", "shop_7"),
    ("7", "shop_7"),
    ("order.v1", "order_v1"),
    ("x" * 60, "x" * 60),
]


@pytest.mark.parametrize(("kind", "name"), KINDS)
def test_a_table_is_proposed_for_a_kind_of_any_letters(kind: str, name: str) -> None:
    """What is printed can be typed: the name is legal and the kind arrives as it is."""
    assert typed_for("shop", kind) == [(name, kind)]
    assert scaffold.is_free(name)
    assert name not in NEEDED


def test_no_option_is_printed_as_the_word_behind_an_option() -> None:
    """A kind that begins with a dash is written with a sign of equality."""
    (line,) = draft.after_topic("shop", ["--help me"])

    assert " --takes='--help me' " in line


def test_the_name_of_a_topic_that_begins_with_a_dash_is_no_option() -> None:
    """Kafka has such topics."""
    with pytest.raises(DefinitionError) as refused:
        project.new_topic("-orders")

    assert refused.value.hint.endswith("`strandline new topic --from-topic -- -orders`.")


def test_a_line_whose_first_cell_is_in_brackets_is_one_of_several_cells() -> None:
    """Such as the time in an access log, or a number of Windows."""
    lines = (f"[20/Nov/2026:08:15:{n:02} +0000],GET,{{3F25}},{n}".encode() for n in range(40))
    ids = (f"{{3F2504E0-4F89-11D3-9A0C-0305E82C33{n:02}}},paid,{n}".encode() for n in range(40))

    for each in (lines, ids):
        records = [Seen(topic="shop", arrived_at=BEGIN, payload=line) for line in each]
        assert format_of(records) is Format.CSV


def test_kinds_that_are_written_nearly_alike_get_tables_of_their_own() -> None:
    """And none gets the name of a table that is there."""
    names = [
        name
        for name, _ in typed_for(
            "shop", "a.b", "a-b", "A b", "жжж", "ыыы", "orders", used=["orders"]
        )
    ]

    assert names == ["a_b", "shop_a_b", "shop_kind_3", "shop_kind_4", "shop_kind_5", "shop_orders"]
    (line,) = draft.after_topic("orders", [], ["orders"])
    assert line.split()[3] == "orders_rows"


def test_the_names_that_a_draft_needs_are_known() -> None:
    """A table of such a name would be refused when it is typed, after it was proposed."""
    plain = [{"x": n, "status": "ab"[n % 2], "at": "2026-11-20T01:00:00Z"} for n in range(400)]
    changes = [{"op": "c", "source": {"lsn": n}, "after": {"id": n}} for n in range(400)]
    texts = [silver(drafted(each), "shop") for each in (plain, changes)]
    names = {name for text in texts for name in scaffold.bound(text)}

    assert {name for name in names if scaffold.is_free(name)} - {"events"} == NEEDED


def drafted(records: Sequence[Mapping[str, object]]) -> Draft:
    """Return the draft of a table over records, which arrive at the same moment."""
    payloads = [json.dumps(each).encode() for each in records]
    seen = [Seen(topic="shop", arrived_at=BEGIN, payload=each) for each in payloads]
    sample = Sample(records=seen, held=len(seen), place="topic shop", partitions=4)
    return draft_table.draft("events", "shop", look(sample))


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.kafka
def test_what_is_printed_after_the_draft_of_a_topic_can_be_typed(tmp_path: Path) -> None:
    """For a topic with a name of Python's own, and kinds that a shell would read otherwise."""
    root, kinds = tmp_path / "mill", ["it's", "--help", "required", "заказ", "PaymentBooked"]
    succeeded("init", root)
    lake = Lake(tmp_path / "broker")
    address = up(lake).address
    try:
        send(address, "class", kinds)
        done = typed_in(root, address, "new", "topic", "class", "--from-topic")
        lines = [each for each in done.splitlines() if each.startswith("  strandline new")]
        for line in lines:
            typed_in(root, address, *shlex.split(line)[1:])
        refused = typed_in(root, address, "new", "topic", "clas", "--from-topic", code=2)
    finally:
        down(lake)

    written = {each.stem for each in (root / "mill/silver").glob("*.py")} - {"__init__", "orders"}
    assert "wrote mill/bronze/topic_class.py" in done
    assert len(written) == len(lines) == len(kinds)
    assert "payment_booked" in written
    assert "did you mean class? the cluster's topics are class;" in refused


def send(address: str, topic: str, kinds: Sequence[str]) -> None:
    """Send records of kinds, of which each has a field of its own."""
    make(address, Topic(name=topic))
    producer = Producer({"bootstrap.servers": address})
    for n in range(50 * len(kinds)):
        kind = n % len(kinds)
        record = {"id": n, "type": kinds[kind], f"field_{kind}": n}
        producer.produce(topic, json.dumps(record).encode())
    assert producer.flush(30) == 0


def typed_in(root: Path, address: str, *words: str, code: int = 0) -> str:
    """Type a verb in the project's folder, and return what it answers."""
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": tree.search_path(tree.ROOT), "TZ": "UTC"}
    done = subprocess.run(
        [sys.executable, "-m", "strandline.cli", *words],
        cwd=root,
        env={**env, "STRANDLINE_KAFKA": address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
