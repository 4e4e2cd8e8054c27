"""A promotion is live at once or not at all, and can be taken back with what was muted meanwhile."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from jobs.core.errors import DefinitionError, TransientError
from jobs.engine.storage import rule_shelf
from jobs.engine.storage.file_lock import hold
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.rule_shelf import LOCK, MOST, Promotion, live_rules, promotions, take_back


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
    return rule_shelf.put_live(
        lake, files, without=without, base=base, check=lambda _: None, record=record
    )


def live(lake: Lake) -> dict[str, str]:
    """Return the files of the rules that are live."""
    folder = live_rules(lake)
    assert folder is not None
    files = (path for path in folder.local.rglob("*") if path.is_file())
    return {str(path.relative_to(folder.local)): path.read_text() for path in files}


def test_a_promotion_adds_to_what_is_live(lake: Lake, base: Path) -> None:
    """The first one to the starter set, the next one to the one before."""
    first = put(lake, base, {"below/a.yml": b"a"})
    second = put(lake, base, {"b.yml": b"b"}, without=["first.yml"])

    assert live(lake) == {"below/a.yml": "a", "b.yml": "b"}
    assert promotions(lake) == (first, second)
    assert (first.version, second.version) == ("0001", "0002")


def test_what_is_taken_back_is_as_it_was_but_for_what_is_muted(lake: Lake, base: Path) -> None:
    """Promotions are taken back one after the other, and a number is given once."""
    put(lake, base, {"a.yml": b"a"})
    put(lake, base, {"a.yml": b"changed"})
    assert live_rules(lake) is not None
    (live_rules(lake) / "muted.txt").put("noise")  # type: ignore[operator]  # it is one
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
        rule_shelf.put_live(
            lake, {"b.yml": b"b"}, without=(), base=base, check=check, record={"at": "", "by": ""}
        )
    before = live(lake)
    put(lake, base, {"c.yml": b"c"})

    assert before == {"first.yml": "first", "a.yml": "a"}
    assert live(lake) == before | {"c.yml": "c"}


def test_only_so_many_versions_are_kept(lake: Lake, base: Path) -> None:
    for number in range(MOST + 3):
        put(lake, base, {"a.yml": str(number).encode()})

    versions = [name for name in lake.rules.names() if name.isdigit()]
    assert len(promotions(lake)) == len(versions) == MOST
    assert versions[-1] == promotions(lake)[-1].version


def test_one_promotion_at_a_time(lake: Lake, base: Path) -> None:
    with hold(lake.rules / LOCK), pytest.raises(TransientError, match="is promoting"):
        put(lake, base, {})
