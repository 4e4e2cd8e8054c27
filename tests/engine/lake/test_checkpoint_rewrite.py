"""A checkpoint's offsets are moved and never changed; its state is put aside whole."""

from pathlib import Path

import pytest

from strandline.engine.lake.mend_checkpoint import (
    copy_metadata,
    operator_names,
    retire_state,
    rewrite_sources,
)
from strandline.engine.lake.place import Place
from strandline.engine.lake.spark_checkpoint import (
    RunRecord,
    next_batch,
    read_record,
    source_ids,
    write_record,
)

OPERATOR = '{"operatorInfo":{"operatorId":0,"operatorName":"dedupe"},"stateStoreInfo":[]}'


def checkpoint(root: Path) -> Place:
    place = Place.of(root / "checkpoint")
    for number in range(3):
        ids = [f'{{"reservoirId":"{name}","n":{number}}}' for name in "ab"]
        (place / "offsets" / str(number)).put("\n".join(["v1", "{}", *ids]))
    for number in range(2):
        (place / "commits" / str(number)).put("v1\n{}")
    (place / "state" / "0" / "_metadata" / "metadata").put(f"v1\n{OPERATOR}")
    (place / "state" / "0" / "0" / "_metadata" / "schema").put("schema")
    (place / "state" / "0" / "0" / "1.changelog").put("state")
    return place


def test_sources_change_places_with_their_offsets(tmp_path: Path) -> None:
    place = checkpoint(tmp_path)

    rewrite_sources(place, [1, None, 0])

    assert source_ids(place) == ["b", None, "a"]
    assert (place / "offsets" / "1").local.read_text().splitlines() == [
        "v1",
        "{}",
        '{"reservoirId":"b","n":1}',
        "-",
        '{"reservoirId":"a","n":1}',
    ]
    assert '"a"' in (place / "offsets" / "0").local.read_text().splitlines()[2]


@pytest.mark.whole
def test_a_retired_state_is_kept_beside_the_offsets(tmp_path: Path) -> None:
    place = checkpoint(tmp_path)

    retire_state(place)
    retire_state(place)

    assert operator_names(place) == []
    assert (place / "retired_state" / "0" / "0" / "1.changelog").text() == "state"
    assert source_ids(place) == ["a", "b"]


def test_a_copy_has_what_is_about_the_state_and_not_the_state(tmp_path: Path) -> None:
    place, copy = checkpoint(tmp_path), Place.of(tmp_path / "copy")

    copy_metadata(place, copy)

    files = {
        file.relative_to(copy.local).as_posix() for file in copy.local.rglob("*") if file.is_file()
    }
    assert files == {"state/0/_metadata/metadata", "state/0/0/_metadata/schema", "offsets/2"}
    assert operator_names(copy) == operator_names(place) == ["dedupe"]
    assert next_batch(place) == 2


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    place, record = Place.of(tmp_path), RunRecord(fingerprint="1", ids={"a": "b"}, plan={})

    assert read_record(place) is None
    write_record(place, record)
    assert read_record(place) == record
    for text in ("{", "[]", '{"fingerprint":"1"}'):
        (place / "last_run.json").put(text)
        assert read_record(place) is None
