"""The keys that are named as heavy are those that most rows have, counted exactly, and what is masked stays masked."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from strandline import catalog

from fleet.gold import confirmed_logins as logins
from fleet.silver import user_actions as actions
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.ask import heavy_keys as module
from strandline.engine.ask.heavy_keys import CANDIDATES, HeavyKeys, heavy_keys
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.log_actions import added
from strandline.engine.lake.place import Place
from tests.cli.inside import strandline, succeeded
from tests.engine.written import BRONZE, GOLD, SILVER, entry, written

Rows = list[dict[str, object]]


def batches(lake: Lake, table: Table, rows: list[Rows], reads: Table | None = None) -> None:
    """Commit batches of a table, and of one that has read each."""
    for number, each in enumerate(rows):
        said = entry(table, batch=number, read=len(each), good=len(each), written=len(each))
        written(lake.table(table), each, said.encoded())
        if reads is not None:
            read = entry(reads, batch=number, versions={table.id: (number, number)}, read=len(each))
            written(lake.table(reads), [{"number": number}], read.encoded())


def readings(random: Random, count: int, devices: int) -> Rows:
    """Return readings of devices of which the first send most."""
    return [
        {
            "device_id": f"d{int(devices ** random.random())}",
            "signal": random.choice(("hot", "cold", None)),
            "value": random.random(),
        }
        for _ in range(count)
    ]


def heavy(table: Table, lake: Lake, *by: str) -> HeavyKeys:
    """Return the heaviest keys of the one source of a table."""
    (found,) = heavy_keys(table, lake, catalog.tables(), by)
    return found


def test_they_are_those_of_an_exact_count(tmp_path: Path) -> None:
    """Of a key of several columns, of which one may be NULL; what is rarer than a hundredth may be any."""
    random = Random(11)  # noqa: S311  # no secret
    lake = Lake(tmp_path)
    rows = [readings(random, 2_000, 5_000) for _ in range(10)]
    batches(lake, SILVER, rows, GOLD)
    truth = Counter((one["device_id"], one["signal"]) for each in rows for one in each)

    found = heavy(GOLD, lake)

    assert (found.source, found.by, found.rows) == (SILVER.id, ("device_id", "signal"), 20_000)
    assert [(each.of["device_id"], each.of["signal"], each.rows) for each in found.keys] == [
        (*key, count)
        for key, count in sorted(
            truth.items(), key=lambda each: (-each[1], json.dumps(each[0], separators=(",", ":")))
        )[:10]
    ]
    assert all(each.share == pytest.approx(each.rows / 20_000) for each in found.keys)


@pytest.mark.parametrize("order", ["first", "last", "mixed", "among many"])
def test_a_key_with_a_hundredth_of_the_rows_is_not_missed(tmp_path: Path, order: str) -> None:
    """Wherever it is in the files, and however many others there are: that is what a sketch may get wrong."""
    random = Random(order)  # noqa: S311  # no secret
    count = 50_000
    keys = [f"h{n}" for n in range(20) for _ in range(count // 100)]
    others = [f"k{n}" for n in range(count - len(keys))]
    if order == "among many":  # each of which comes again and again
        others = [f"k{n % 300}" for n in range(count - len(keys))]
    every = {"first": [*keys, *others], "last": [*others, *keys]}.get(order, [*keys, *others])
    if order in {"mixed", "among many"}:
        random.shuffle(every)
    lake = Lake(tmp_path)
    batches(lake, SILVER, [[{"device_id": key, "signal": "a"} for key in every]], GOLD)

    (found,) = heavy_keys(GOLD, lake, catalog.tables(), ("device_id",), most=CANDIDATES)

    counted = {each.of["device_id"]: each.rows for each in found.keys}
    assert {f"h{n}": counted.get(f"h{n}") for n in range(20)} == dict.fromkeys(
        (f"h{n}" for n in range(20)), count // 100
    )
    truth = Counter(every)
    assert all(truth[str(key)] == rows for key, rows in counted.items())


def test_only_the_newest_commits_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole ones, until there are enough rows, and none that the table has not read yet."""
    lake = Lake(tmp_path)
    batches(lake, SILVER, [[{"device_id": f"d{n}", "signal": "a"}] * 100 for n in range(20)], GOLD)
    batches(lake, SILVER, [[{"device_id": "unread", "signal": "a"}] * 500])
    monkeypatch.setattr(module, "ENOUGH", 250)

    found = heavy(GOLD, lake)

    assert (found.versions, found.rows, found.files, found.of_files) == ((17, 19), 300, 3, 3)
    assert {each.of["device_id"] for each in found.keys} == {"d17", "d18", "d19"}


def test_of_very_many_files_some_are_read_and_the_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    batches(lake, SILVER, [[{"device_id": "d", "signal": "a"}] * 10 for _ in range(9)], GOLD)
    monkeypatch.setattr(module, "MOST_FILES", 3)

    found = heavy(GOLD, lake)

    assert (found.files, found.of_files, found.rows) == (3, 9, 30)


def test_files_that_are_gone_end_the_search(tmp_path: Path) -> None:
    """Maintenance deletes what a later version removed; what is there still answers."""
    lake = Lake(tmp_path)
    batches(lake, SILVER, [[{"device_id": f"d{n}", "signal": "a"}] * 10 for n in range(4)], GOLD)
    seen = []
    for version in (0, 3):
        for file in added(lake.table(SILVER), version).files:
            Place.of(file).remove_file()
        found = heavy(GOLD, lake)
        seen.append((found.rows, len(found.keys), found.versions))

    assert seen == [(30, 3, (1, 3)), (0, 0, None)]


def test_a_key_of_a_megabyte_is_shown_short_and_is_no_other(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    rows: Rows = [{"device_id": "x" * 1_000_000 + end, "signal": "a"} for end in ("1", "1", "2")]
    batches(lake, SILVER, [rows], GOLD)

    found = heavy(GOLD, lake, "device_id")

    shown = [each.of["device_id"] or "" for each in found.keys]
    assert [each.rows for each in found.keys] == [2, 1]
    assert len({*shown}) == 2
    assert all(len(each) < 130 and each.startswith("xxx") for each in shown)


def test_of_bronze_and_silver_they_are_the_keys_of_records(tmp_path: Path) -> None:
    """Whose bytes may be anything."""
    lake = Lake(tmp_path)
    keys = [b"d1"] * 7 + [b"\xff\x00"] * 2 + [None]
    rows: Rows = [
        {"_topic": "t", "_partition": 0, "_offset": n, "_message_key": key}
        for n, key in enumerate(keys)
    ]
    batches(lake, BRONZE, [rows], SILVER)

    for table in (BRONZE, SILVER):
        found = heavy(table, lake)
        assert (found.source, found.by) == (BRONZE.id, ("_topic", "_message_key"))
        assert [(each.of["_message_key"], each.rows) for each in found.keys] == [
            ("d1", 7),
            ("\\xFF\\x00", 2),
            (None, 1),
        ]


def test_a_column_may_be_named_and_must_be_there(tmp_path: Path) -> None:
    """Of a table without one in its source, its own rows are asked."""
    lake = Lake(tmp_path)
    batches(lake, SILVER, [[{"device_id": "d", "signal": "a", "site": n % 2} for n in range(9)]])
    written(
        lake.table(GOLD), [{"readings": 3}] * 4, entry(GOLD, versions={SILVER.id: (0, 0)}).encoded()
    )

    by_site, own = heavy(GOLD, lake, "site"), heavy(GOLD, lake, "readings")

    assert [(each.of, each.rows) for each in by_site.keys] == [
        ({"site": "0"}, 5),
        ({"site": "1"}, 4),
    ]
    assert (own.source, [(each.of, each.rows) for each in own.keys]) == (
        GOLD.id,
        [({"readings": "3"}, 4)],
    )
    with pytest.raises(DefinitionError, match="has colour"):
        heavy(GOLD, lake, "colour")


@pytest.fixture
def people(tmp_path: Path) -> Lake:
    """Return a lake in which one user, whose name is masked, has half of all actions."""
    lake = Lake(tmp_path / "lake")
    users = ["ann@example.org"] * 20 + [f"user{n}@example.org" for n in range(20)]
    rows: Rows = [{"action_id": str(n), "user_id": user} for n, user in enumerate(users)]
    batches(lake, actions.TABLE, [rows], logins.TABLE)
    bronze = actions.TABLE.bronze
    records: Rows = [
        {"_topic": "user-actions", "_message_key": user.encode(), "_payload": user.encode()}
        for user in users
    ]
    batches(lake, bronze, [records])
    return lake


def texts(lake: Lake) -> Iterator[str]:
    """Yield all that the verb prints about that lake."""
    for words in (
        (logins.TABLE.id, "--by", "user_id"),
        (actions.TABLE.id, "--by", "user_id"),
        (actions.TABLE.id, "--keys"),
        (actions.TABLE.bronze.id, "--keys"),
        (actions.TABLE.bronze.id, "--by", "_payload"),
    ):
        for more in ((), ("--json",)):
            answer = strandline("cost", *words, *more, "--lake", lake.root)
            yield answer.out + answer.err


def test_what_is_masked_is_counted_and_not_shown(people: Lake) -> None:
    """In silver, in the keys and the payloads of its bronze, and in an answer for programs."""
    (found,) = heavy_keys(actions.TABLE, people, catalog.tables(), ("user_id",))

    assert found.masked == ("user_id",)
    assert (found.keys[0].rows, found.keys[0].share) == (20, 0.5)
    assert str(found.keys[0].of["user_id"]).startswith("[")
    said = [*texts(people)]
    assert all("50.0%" in each or '"share": 0.5' in each for each in said), said
    assert not [each for each in said if "example" in each]


@pytest.mark.whole
def test_on_a_store_they_are_the_same(bucket: Place, tmp_path: Path) -> None:
    random = Random(3)  # noqa: S311  # no secret
    rows = [readings(random, 200, 50) for _ in range(3)]
    for lake in (disk := Lake(tmp_path), store := Lake(bucket)):
        batches(lake, SILVER, rows, GOLD)

    assert heavy(GOLD, store) == heavy(GOLD, disk)


def test_a_table_must_be_named(people: Lake) -> None:
    """Files of all tables are too many to be read for one look."""
    answer = strandline("cost", "--keys", "--lake", people.root)

    assert answer.code == 2
    assert "name them" in answer.err


def test_a_key_that_the_source_does_not_have_is_said(people: Lake) -> None:
    """The table's own key is made by its function."""
    (found,) = succeeded(
        "cost", "gold.ip_holds", "--keys", "--lake", with_holds(people), "--json"
    ).json  # type: ignore[misc]

    assert found["versions"] is None


def with_holds(lake: Lake) -> Place:
    """Add a table whose source has no column of its key."""
    table = catalog.find("gold.ip_holds")
    (source,) = table.upstream
    batches(lake, source, [[{"lease": 1}]], table)
    return lake.root
