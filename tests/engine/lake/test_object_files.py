"""On an object store a place does what it does in a folder, and of many writers one wins."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake import object_files
from strandline.engine.lake.place import Place
from strandline.engine.runtime.outage import Keys, StoreRefusesError
from tests.support.clouds import Cloud
from tests.support.lossy_proxy import losing
from tests.support.s3_server import BUCKET

WRITERS = 50
FEW = 8


def test_small_files_are_written_read_listed_and_removed_alike(either: Place) -> None:
    """Every name that Spark gives to a folder of a partition is kept as it is."""
    day = either / "day=2026-11-01 00%3A00"
    (day / "part.parquet").put_bytes(b"\0rows")
    (either / "gate.json").put("shut")

    assert either.names() == ["day=2026-11-01 00%3A00", "gate.json"]
    assert (day / "part.parquet").bytes() == b"\0rows"
    assert (either / "gate.json").text() == "shut"
    assert (day / "part.parquet").size() == len(b"\0rows")
    assert (day / "part.parquet").last_bytes(3) == b"ows"
    assert sorted(each.below(either) for each in either.files()) == [
        "day=2026-11-01 00%3A00/part.parquet",
        "gate.json",
    ]
    day.remove()
    (either / "nothing").remove()
    assert not day.exists()
    assert [each.name for each in either.files()] == ["gate.json"]


def test_a_data_file_is_written_and_read_part_by_part(either: Place) -> None:
    """As Arrow does when maintenance puts files together; there are more bytes than one request sends."""
    either.make()
    file = either / "part.parquet"
    rows = pa.table({"text": [f"{number:x}" * 9 for number in range(400_000)]})
    with (
        file.written() as out,
        pq.ParquetWriter(out, rows.schema, compression="none", use_dictionary=False) as writer,
    ):
        for start in range(0, len(rows), 100_000):
            writer.write_table(rows.slice(start, 100_000))
    assert file.size() > 12 * 2**20
    assert pq.ParquetFile(file.source()).read() == rows


def test_what_is_not_there_is_nothing_and_no_error(either: Place) -> None:
    """A reader asks before anything was written."""
    assert (either / "gate.json").text() is None
    assert either.names() == []
    assert not either.exists()
    assert [*either.files()] == []


def test_a_stamp_changes_with_what_is_written_and_not_with_what_is_read(either: Place) -> None:
    """Of a file that is gone there is none."""
    file = either / "a.jsonl"
    file.put("one")
    first = file.stamp()

    assert (file.text(), file.stamp()) == ("one", first)
    file.put("two")
    assert file.stamp() != first
    file.remove_file()
    with pytest.raises(FileNotFoundError):
        file.stamp()


def test_a_folder_exists_as_long_as_a_file_in_it(either: Place) -> None:
    """A file of that name is another thing."""
    (either / "state" / "0").put("rows")

    assert (either / "state").exists()
    assert not (either / "state").is_file()
    assert not (either / "sta").exists()


@pytest.mark.whole
def test_of_many_that_replace_what_they_have_read_one_wins_in_each_round(either: Place) -> None:
    """Nor is a file that another has created, or removed, replaced."""
    file = either / "live.json"
    tag = file.exchange("first", None)
    assert file.exchange("another first", None) is None
    for number in range(2):
        with ThreadPoolExecutor(FEW) as pool:
            tags = [*pool.map(lambda n: file.exchange(f"{number}, {n}", tag), range(FEW))]  # noqa: B023  # the round ends here
        (won,) = (n for n, each in enumerate(tags) if each)
        assert file.tagged() == (f"{number}, {won}", tags[won])
        tag = tags[won]
    file.remove()

    assert file.exchange("late", tag) is None
    assert file.tagged() is None


def test_arrow_reads_parts_of_a_file_and_lines_are_read_one_by_one(
    either: Place, tmp_path: Path
) -> None:
    """As small files are merged, and a checkpoint of a log is read."""
    pq.write_table(pa.table({"number": range(100)}), tmp_path / "rows", row_group_size=10)
    (either / "rows").put_bytes((tmp_path / "rows").read_bytes())
    (either / "lines").put("one\ntwo\n")

    with pq.ParquetFile((either / "rows").source()) as rows:
        assert rows.read_row_group(7)["number"].to_pylist() == [*range(70, 80)]
    with (either / "lines").opened() as lines:
        assert [*lines] == [b"one\n", b"two\n"]


def test_a_listing_has_sizes_and_times(either: Place) -> None:
    (either / "a" / "b").put("four")

    (found,) = either.listed()

    assert (found.place, found.size) == (either / "a" / "b", 4)
    assert abs(time.time() - found.written / 1e9) < 60


def test_lines_are_appended_alike(either: Place) -> None:
    """For logs that are never cut."""
    (either / "log.jsonl").append("one")
    (either / "log.jsonl").append("two")

    assert (either / "log.jsonl").text() == "one\ntwo\n"


def test_a_folder_moves_with_all_that_it_holds(either: Place) -> None:
    """A checkpoint is put away so."""
    (either / "used" / "offsets" / "0").put("v1")
    (either / "used" / "metadata").put("{}")

    (either / "used").move(either / "away" / "1")

    assert not (either / "used").exists()
    assert (either / "away" / "1" / "offsets" / "0").text() == "v1"


def test_names_from_one_on_are_listed_alike(either: Place) -> None:
    """Of a log, its newest part."""
    for number in (8, 9, 10, 11):
        (either / f"{number:020d}.json").put("commit")

    found = either.names_from(f"{9:020d}.json")

    assert found == [f"{number:020d}.json" for number in (9, 10, 11)]


@pytest.mark.whole
def test_of_many_writers_one_creates_a_file(either: Place) -> None:
    """The others hear that it is there."""

    def create(number: int) -> bool:
        return (either / "commit.json").create(f"by {number}")

    with ThreadPoolExecutor(WRITERS) as pool:
        won = [number for number, done in enumerate(pool.map(create, range(WRITERS))) if done]

    assert len(won) == 1
    assert (either / "commit.json").text() == f"by {won[0]}"


def test_of_many_writers_one_replaces_an_object(in_cloud: Place) -> None:
    """Who read an older one has lost."""
    file = str(in_cloud / "lease.json")
    tag = object_files.create_tagged(file, b"0")
    assert tag is not None

    def replace(number: int) -> bool:
        return object_files.replace(file, f"by {number}".encode(), tag) is not None

    with ThreadPoolExecutor(WRITERS) as pool:
        won = [number for number, done in enumerate(pool.map(replace, range(WRITERS))) if done]

    assert len(won) == 1
    assert object_files.read(file) == f"by {won[0]}".encode()


def test_a_mark_of_a_folder_of_azures_is_no_file(azure: Cloud) -> None:
    """Hadoop leaves an empty blob of the folder's name, which says in words of its own what it is."""
    root = Place.of(f"{azure.scheme}://{azure.root}/{uuid4().hex[:8]}")
    (root / "table" / "rows").put("rows")
    (root / "empty").put("")
    store = object_files.bucket_of(str(root))
    for name in ("table", "gone"):
        key = f"{root.path.partition('/')[2]}/{name}"
        obstore.put(store, key, b"", attributes={"hdi_isfolder": "true"})

    assert root.names() == ["empty", "table"]
    assert [each.name for each in root.files()] == ["empty", "rows"]
    assert ((root / "table").exists(), (root / "table").is_file()) == (True, False)
    assert ((root / "gone").exists(), (root / "empty").is_file()) == (False, True)


@pytest.mark.whole
def test_a_write_whose_answer_was_lost_is_known_as_ones_own(
    cloud: Cloud, in_cloud: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client asks again and meets its own object."""
    asked = list[str]()

    def loses(line: str) -> bool:
        is_first = line.startswith("PUT ") and line not in asked
        asked.append(line)
        return is_first

    lease = str(in_cloud / "lease")
    with losing(cloud.address, loses) as proxy:
        for name, value in cloud.through(proxy.address).items():
            monkeypatch.setenv(name, value)
        for number in range(5):
            assert (in_cloud / f"{number}.json").create(f"commit {number}")
        tag = object_files.create_tagged(lease, b"0")
        assert tag is not None
        new = object_files.replace(lease, b"1", tag)

    assert proxy.lost >= 5
    assert new is not None
    assert object_files.read_tagged(lease) == (b"1", new)


@pytest.mark.whole
def test_a_store_that_does_not_answer_is_an_error_to_try_again(
    cloud: Cloud, in_cloud: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hint names the variable with the address; a program ends and does not wait for ever."""
    monkeypatch.setitem(object_files.PATIENCE, "retry_timeout", timedelta(seconds=1))
    object_files._client.cache_clear()  # it keeps the patience
    for name, value in cloud.through("http://127.0.0.1:9").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(TransientError, match=f"{cloud.scheme}://{cloud.root}") as unanswered:
        (in_cloud / "gate.json").put("shut")

    object_files._client.cache_clear()  # it keeps the patience
    assert cloud.variable in unanswered.value.hint


def test_a_wrong_key_is_refused_with_a_hint(bucket: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret is in no message; and where keys have worked before, it is weather."""
    monkeypatch.setattr(object_files, "KEYS", Keys())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    object_files._client.cache_clear()  # it keeps the former key
    with pytest.raises(DefinitionError, match=f"s3a://{BUCKET}") as refused:
        (bucket / "gate.json").put("shut")
    object_files.KEYS.worked()
    with pytest.raises(StoreRefusesError, match=f"s3a://{BUCKET}") as weather:
        (bucket / "gate.json").put("shut")

    object_files._client.cache_clear()
    assert "wrong-secret" not in str(weather.value)
    assert "AWS_ACCESS_KEY_ID" in refused.value.hint
    assert "wrong-secret" not in str(refused.value)
