"""A promotion is live at once or not at all, and can be taken back with what was muted meanwhile."""

import json
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Promotion, live_rules, promotions, take_back

MOST = 3


@pytest.fixture
def lake(either: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return an empty lake in a folder, or on a store."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Lake(either)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return the rules that are live before any promotion."""
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "first.yml").write_text("first")
    return folder


def put(
    lake: Lake, base: Path, files: Mapping[str, bytes], without: Collection[str] = ()
) -> Promotion:
    record = {"at": "now", "by": "me", "rules": ({"rule": "r"},), "backtest": {"alerts": 1}}
    return shelves.put_live(
        lake, files, without=without, base=base, check=lambda _: None, record=record
    )


def live(lake: Lake) -> dict[str, str]:
    """Return the files of the rules that are live."""
    folder = live_rules(lake)
    assert folder is not None
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_a_promotion_adds_to_what_is_live(lake: Lake, base: Path) -> None:
    """The first one to the project's, the next one to the one before."""
    first = put(lake, base, {"below/a.yml": b"a"})
    second = put(lake, base, {"b.yml": b"b"}, without=["first.yml"])

    assert live(lake) == {"below/a.yml": "a", "b.yml": "b"}
    assert promotions(lake) == (first, second)
    assert (first.version, second.version) == ("0001", "0002")


def test_what_is_taken_back_is_as_it_was_but_for_what_is_muted(lake: Lake, base: Path) -> None:
    """Promotions are taken back one after the other, and a number is given once."""
    put(lake, base, {"a.yml": b"a"})
    put(lake, base, {"a.yml": b"changed"})
    (lake.rules / promotions(lake)[-1].version / "muted.txt").put("noise")
    gone = take_back(lake, at="later", by="you")
    first = live(lake)
    third = put(lake, base, {"a.yml": b"again"})
    take_back(lake, at="later", by="you")
    take_back(lake, at="later", by="you")

    assert gone.version == "0002"
    assert first == {"first.yml": "first", "a.yml": "a", "muted.txt": "noise"}
    assert third.version == "0003"
    assert live_rules(lake) is None
    with pytest.raises(DefinitionError, match="no rules were promoted"):
        take_back(lake, at="later", by="you")
    history = (lake.rules / "history.jsonl").text() or ""
    lines = [json.loads(line) for line in history.splitlines()]
    assert [(line["what"], line["version"], line["by"]) for line in lines] == [
        ("promoted", "0001", "me"),
        ("promoted", "0002", "me"),
        ("taken back", "0002", "you"),
        ("promoted", "0003", "me"),
        ("taken back", "0003", "you"),
        ("taken back", "0001", "you"),
    ]


def test_a_folder_that_is_not_sound_is_never_live(lake: Lake, base: Path) -> None:
    """And what it, or a kill, left behind is in no later version."""
    put(lake, base, {"a.yml": b"a"})

    def check(folder: Path) -> None:
        assert (folder / "b.yml").read_bytes() == b"b"
        raise DefinitionError("no", hint="no")

    with pytest.raises(DefinitionError):
        shelves.put_live(
            lake, {"b.yml": b"b"}, without=(), base=base, check=check, record={"at": "", "by": ""}
        )
    before = live(lake)
    put(lake, base, {"c.yml": b"c"})

    assert before == {"first.yml": "first", "a.yml": "a"}
    assert live(lake) == before | {"c.yml": "c"}


def test_only_so_many_versions_are_kept(
    lake: Lake, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "MOST_RULES", MOST)
    for number in range(MOST + 3):
        put(lake, base, {"a.yml": str(number).encode()})

    # A server may list a folder for some moments after its last object is gone.
    names = [name for name in lake.rules.names() if (lake.rules / name).exists()]
    versions = [name for name in names if name.isdigit()]
    assert [name for name in names if name[1:].isdigit() and name[0] == "."] == [
        f".{name}" for name in versions
    ]
    assert len(promotions(lake)) == len(versions) == MOST
    assert versions[-1] == promotions(lake)[-1].version


@pytest.mark.whole
def test_of_two_promotions_at_once_one_wins(lake: Lake, base: Path) -> None:
    """The other's files are in no version that is ever live, also where it was suspended for hours."""
    put(lake, base, {"a.yml": b"a"})

    def another(_: Path) -> None:
        put(lake, base, {"b.yml": b"b"})

    record = {"at": "now", "by": "me", "rules": (), "backtest": {}}
    with pytest.raises(TransientError, match="meanwhile"):
        shelves.put_live(lake, {"c.yml": b"c"}, without=(), base=base, check=another, record=record)
    after = live(lake)
    third = put(lake, base, {"d.yml": b"d"})

    assert after == {"first.yml": "first", "a.yml": "a", "b.yml": "b"}
    assert live(lake) == after | {"d.yml": "d"}
    assert [each.version for each in promotions(lake)] == ["0001", "0002", third.version]
    assert third.version == "0004"
    history = ((lake.rules / "history.jsonl").text() or "").splitlines()
    assert [json.loads(line)["what"] for line in history][-3:] == [
        "promoted",
        "refused",
        "promoted",
    ]


def test_two_that_take_back_at_once_take_one_promotion_back(lake: Lake, base: Path) -> None:
    """On a store both may hear that they did, because both have written the same."""
    put(lake, base, {"a.yml": b"a"})
    put(lake, base, {"b.yml": b"b"})
    barrier = threading.Barrier(2, timeout=30)
    noted = shelves._note

    def note(*words: object, **fields: object) -> None:
        noted(*words, **fields)  # type: ignore[arg-type]  # as they come
        if "taken back" in words:
            barrier.wait()  # both have read what is live

    ended = []

    def undo() -> None:
        try:
            ended.append(take_back(lake, at="later", by="you").version)
        except TransientError as error:
            ended.append(error.kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelves, "_note", note)
        threads = [threading.Thread(target=undo) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert "0002" in ended
    assert {*ended} <= {"0002", "transient"}
    assert live(lake) == {"first.yml": "first", "a.yml": "a"}
