"""A place is a value that Spark, Delta and delta-rs accept as text, and reads and writes small files whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place


def test_the_text_of_a_place_on_a_store_keeps_both_slashes() -> None:
    """A path would lose one of them."""
    place = Place("lake", "s3a") / "silver" / "readings"

    assert str(place) == "s3a://lake/silver/readings"
    assert str(place.parent.parent) == "s3a://lake"
    assert place.name == "readings"


@pytest.mark.parametrize("words", ["{0}/a lake", "file://{0}/a lake", "{0}/./a lake"])
def test_a_folder_is_named_by_a_path_or_an_address(words: str, tmp_path: Path) -> None:
    """Both name the same place, which is where the folder is."""
    place = Place.of(words.format(tmp_path))

    place.make()

    assert place == Place(str(tmp_path / "a lake"))
    assert (tmp_path / "a lake").is_dir()
    assert os.fspath(place) == str(place) == str(tmp_path / "a lake")


def test_a_relative_path_is_one_below_the_present_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a place stays the same when a program enters another folder."""
    monkeypatch.chdir("/")

    assert Place.of("lake") == Place("/lake")


@pytest.mark.parametrize(
    ("words", "bucket", "folder"),
    [
        ("gs://lakes/shop/", "gs://lakes", "gs://lakes"),
        (
            "abfss://box@account.dfs.core.windows.net/shop",
            "abfss://box@account.dfs.core.windows.net",
            "abfss://box@account.dfs.core.windows.net",
        ),
    ],
)
def test_a_lake_on_each_kind_of_store_is_named_by_its_address(
    words: str, bucket: str, folder: str
) -> None:
    """Azure's has the account beside the container, which no part of a path may lose."""
    place = Place.of(words)

    assert str(place) == words.rstrip("/")
    assert (place.bucket, str(place.parent)) == (bucket, folder)
    assert str(place / "silver" / "readings") == f"{words.rstrip('/')}/silver/readings"
    assert not place.is_local


@pytest.mark.parametrize(
    "words",
    [
        *("s3a://", "gs:///", "hdfs://host/lake", "file://host/lake"),
        *(
            "abfss://box/lake",
            "abfss://box@account/lake",
            "abfss://@account.dfs.core.windows.net/a",
        ),
    ],
)
def test_a_lake_on_another_store_is_refused_with_a_hint(words: str) -> None:
    """Not made as a folder of that name, which is what a path would do."""
    with pytest.raises(DefinitionError, match=words) as refused:
        Lake(Place.of(words))

    assert "--lake" in refused.value.hint


def test_a_place_on_a_store_has_no_local_path() -> None:
    """What needs a file of this machine fails at once."""
    with pytest.raises(DefinitionError, match="s3a://lake"):
        _ = Place("lake", "s3a").local


def test_a_file_is_written_whole_and_read_whole(tmp_path: Path) -> None:
    """The folders above it are made, and no draft is left."""
    file = Place.of(tmp_path) / "new" / "heartbeat.json"

    assert file.text() is None
    assert (file / "below a file").text() is None
    file.put("é")
    assert (file / "below a file").text() is None
    file.put("old")

    assert file.text() == "old"
    assert file.parent.names() == ["heartbeat.json"]


def test_a_reader_who_opened_the_old_file_reads_the_old_text(tmp_path: Path) -> None:
    """The new text is in another file, under the same name."""
    file = Place.of(tmp_path) / "heartbeat.json"
    file.put("old")

    with file.local.open() as reader:
        file.put("new")

        assert reader.read() == "old"


def test_lines_are_appended(tmp_path: Path) -> None:
    """For logs that are never cut."""
    log = Place.of(tmp_path) / "logs" / "program.log"

    log.append("one")
    log.append("two")

    assert log.text() == "one\ntwo\n"


def test_no_link_is_followed_out_of_the_lake(tmp_path: Path) -> None:
    """It may lead to a secret."""
    (tmp_path / "secret").write_text("secret")
    page = Place.of(tmp_path) / "page"
    page.local.symlink_to(tmp_path / "secret")

    assert page.bytes() is None
    assert (page.parent / "secret").bytes() == b"secret"
    assert page.parent.bytes() is None


def test_removing_a_link_leaves_what_it_shows(tmp_path: Path) -> None:
    """A folder, a file, a link, or nothing: afterwards nothing is there, and nothing else is gone."""
    root = Place.of(tmp_path)
    (root / "tables" / "readings").put("rows")
    (root / "link").local.symlink_to(root / "tables")

    (root / "link").remove()
    (root / "nothing").remove()

    assert root.names() == ["tables"]
    assert (root / "tables" / "readings").text() == "rows"
    (root / "tables").remove()
    assert root.names() == []


def test_a_file_moves_into_a_folder_that_is_made_for_it(tmp_path: Path) -> None:
    """A file of the new name is replaced."""
    old, new = Place.of(tmp_path) / "old", Place.of(tmp_path) / "away" / "new"
    old.put("rows")

    old.move(new)

    assert (old.text(), new.text()) == (None, "rows")
    assert new.below(Place.of(tmp_path)) == "away/new"


def test_a_file_is_created_once(tmp_path: Path) -> None:
    """The second changes nothing, and no draft is left."""
    file = Place.of(tmp_path) / "new" / "commit.json"

    assert file.create("first")
    assert not file.create("second")

    assert file.text() == "first"
    assert file.parent.names() == ["commit.json"]


FULL = """
import resource, signal, sys
from strandline.engine.lake.place import Place
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
for beat in range(5):
    try:
        Place(sys.argv[1]).put("a heartbeat that has no room on the disk")
    except OSError as error:
        print(error.errno)
"""


@pytest.mark.whole
def test_a_file_that_has_no_room_leaves_nothing(tmp_path: Path) -> None:
    """A heartbeat is tried again every second, and left a draft each time."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "beat.json")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert len(done.stdout.split()) == 5
    assert [*tmp_path.iterdir()] == []


def test_what_cannot_take_its_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    with pytest.raises(OSError, match="directory"):
        Place(str(tmp_path / "a")).put("a file where a folder is")

    assert [each.name for each in tmp_path.iterdir()] == ["a"]


def test_a_line_after_one_that_was_cut_off_is_a_line(tmp_path: Path) -> None:
    """It became one line with the torn one, and both were lost."""
    (tmp_path / "log").write_bytes(b'{"a": 1}\n{"b": ')

    Place(str(tmp_path / "log")).append('{"c": 3}')
    Place(str(tmp_path / "log")).append('{"d": 4}')

    assert (tmp_path / "log").read_text().splitlines() == [
        '{"a": 1}',
        '{"b": ',
        '{"c": 3}',
        '{"d": 4}',
    ]


@pytest.mark.parametrize(
    "address",
    [
        "s3a://key:hush@bucket/lake",
        "gs://key:hush@bucket",
        "abfss://box@account.dfs.core.windows.net/lake?sv=1&sig=hush",
        "hdfs://key:hush@host/lake?token=hush",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        Place.of(address)
    assert "hush" not in f"{refused.value} {vars(refused.value)}"


@pytest.mark.parametrize(
    "name",
    [*(f"a{each}b" for each in ' #?%~*[]{}|^`<>\\"ü\n'), "a//b", "a/../b", "a/./b", ".."],
)
def test_a_folder_that_delta_rs_would_take_for_another_is_no_lake(name: str) -> None:
    """At # and ? an address ends for it, so all tables of such a lake would have one log."""
    with pytest.raises(DefinitionError, match=r"its address contains|has a user"):
        Lake(Place.of(f"s3a://bucket/{name}/c"))


@pytest.mark.parametrize("name", ["a.b", "..a", "a..", ".a/b", "A-b_c=1"])
def test_usual_names_are_lakes(name: str) -> None:
    assert str(Lake(Place.of(f"s3a://bucket/{name}")).root) == f"s3a://bucket/{name}"
