"""Versions never change, and of two processes that decide at once one wins; a rollback takes nothing away."""

import threading
from pathlib import Path

import pytest

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.core.model import Linear, as_words
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Decision, Terms
from tests.support.rows import NOON

NAME = "unusual"


@pytest.fixture
def lake(either: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Return an empty lake in a folder, or on a store."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return Lake(either)


def keep(lake: Lake, version: str, at: str = "noon") -> None:
    form = as_words(Linear(intercept="0", weights=("1",)))
    words = {"version": version, "features": [{"name": "f", "sql": "1"}], "form": form}
    words |= {"threshold": "0", "certificate": {"at": at}}
    shelves.keep(lake, NAME, version, words)


def decide(lake: Lake, was: Terms, what: str, version: str | None) -> Terms:
    at = NOON.isoformat()
    decision = Decision(what=what, version=version, since=at, at=at, by="me")
    return shelves.decide(lake, NAME, was, decision)


def test_a_version_is_written_once(lake: Lake) -> None:
    keep(lake, "a", at="noon")
    keep(lake, "a", at="later")

    assert shelves.version(lake, NAME, "a")["certificate"] == {"at": "noon"}
    with pytest.raises(DefinitionError, match="the model unusual has no version b"):
        shelves.version(lake, NAME, "b")


def test_the_draft_of_a_process_that_was_killed_is_no_version(lake: Lake) -> None:
    """A training that is killed while it writes its file must not make all others unreadable."""
    keep(lake, "a")
    folder = lake.models / NAME / "versions"
    (folder / ".b.json.0123").put('{"version"')

    assert [each["version"] for each in shelves.versions(lake, NAME)] == ["a"]


def test_a_damaged_version_is_named(lake: Lake) -> None:
    (lake.models / NAME / "versions" / "a.json").put('{"version"')

    with pytest.raises(DataError, match=r"versions/a\.json is damaged") as error:
        shelves.versions(lake, NAME)
    assert "snapshot" in error.value.hint


@pytest.mark.whole
def test_a_rollback_is_one_more_term(lake: Lake) -> None:
    keep(lake, "a")
    keep(lake, "b")
    known = shelves.terms(lake, NAME)
    for what, version in (
        ("promoted", "a"),
        ("promoted", "b"),
        ("rolled back", "a"),
        ("rolled back", None),
        ("promoted", "b"),
    ):
        known = decide(lake, known, what, version)

    assert shelves.terms(lake, NAME).every == known.every
    assert known.stack == ["b"]
    held = [trained and trained.version for _, trained in shelves.in_force(lake, NAME)]
    assert held == ["a", "b", "a", None, "b"]
    assert len([*shelves.history(lake, NAME)]) == 5


def test_a_term_of_history_counts_where_no_other_holds_and_is_not_rolled_back(lake: Lake) -> None:
    keep(lake, "a")
    keep(lake, "b")
    known = decide(lake, shelves.terms(lake, NAME), "promoted", "a")
    known = decide(lake, known, "rescored", "b")
    known = decide(lake, known, "rolled back", None)

    assert [each.version for each in shelves.terms(lake, NAME).every] == ["b", "a", None]
    assert known.stack == []


def test_of_two_that_decide_at_once_one_wins(lake: Lake) -> None:
    was = shelves.terms(lake, NAME)
    refused: list[str] = []
    begin = threading.Barrier(4)

    def promote(version: str) -> None:
        begin.wait()
        try:
            decide(lake, was, "promoted", version)
        except TransientError:
            refused.append(version)

    threads = [threading.Thread(target=promote, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (held,) = shelves.terms(lake, NAME).every
    assert sorted([*refused, str(held.version)]) == ["a", "b", "c", "d"]


def test_another_lake_gets_the_terms_with_their_versions(lake: Lake) -> None:
    keep(lake, "a")
    keep(lake, "unused")
    decide(lake, shelves.terms(lake, NAME), "promoted", "a")
    other = Lake(lake.root.parent / "other")

    shelves.carry(lake, other, [NAME, "never trained"])

    assert shelves.in_force(other, NAME) == shelves.in_force(lake, NAME)
    assert (other.models / NAME / "versions").names() == ["a.json"]


def test_a_plan_has_a_bounded_number_of_terms(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelves, "MOST", 1)
    known = decide(lake, shelves.terms(lake, NAME), "promoted", "a")

    with pytest.raises(DefinitionError, match="promoted and rolled back 1 times"):
        decide(lake, known, "promoted", "b")


def test_a_line_of_the_history_that_was_cut_off_hides_no_other(tmp_path: Path) -> None:
    """A full disk or a kill tears one; `models show` failed from then on."""
    lake = Lake(tmp_path)
    shelves.note(lake, NAME, {"what": "promoted", "at": "noon"})
    with (tmp_path / "_models" / NAME / "history.jsonl").open("a") as file:
        file.write('{"what": "pro')
    shelves.note(lake, NAME, {"what": "rolled back", "at": "later"})

    first, torn, last = shelves.history(lake, NAME)

    assert (first["what"], last["what"]) == ("promoted", "rolled back")
    assert "cut off" in torn["what"]
