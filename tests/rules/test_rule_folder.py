"""A change of a folder goes live as far as it is sound, and what is not leaves the version that runs."""

from collections.abc import Sequence
from pathlib import Path
from shutil import copy, rmtree

import pytest

from strandline.alerting.alert_rule import rules_folder
from strandline.alerting.live import Rule
from strandline.alerting.rule_folder import MUTED, RuleFolder, RuleSet
from tests.rules.test_model_rule import ONE, ruled
from tests.support.rows import NOON

FILES = ("process_certutil_decodes_a_file.yml", "process_backups_deleted.yml")


def sound(_: Sequence[Rule]) -> list[tuple[Rule, str]]:
    return []


def folder(path: Path) -> RuleFolder:
    """Return a folder with two rules, both live."""
    for name in FILES:
        copy(rules_folder() / name, path)
    found = RuleFolder(path, sound)
    assert len(looked(found).rules) == 2
    return found


def looked(found: RuleFolder) -> RuleSet:
    new = found.look()
    assert new is not None
    return new


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) + "\n")


@pytest.mark.whole
def test_a_folder_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    assert folder(tmp_path).look() is None


def test_a_change_names_what_was_added_changed_and_removed(tmp_path: Path) -> None:
    found = folder(tmp_path)
    before = found.current
    edit(tmp_path / FILES[0], "decode", "encode")
    (tmp_path / FILES[1]).unlink()
    copy(rules_folder() / "process_document_starts_a_shell.yml", tmp_path)

    changes = looked(found).changes(before)

    assert {kind: len(names) for kind, names in changes.items()} == {
        "added": 1,
        "changed": 1,
        "removed": 1,
    }
    (changed,) = changes["changed"]
    assert changed.split()[1] not in {rule.version for rule in before.rules}


def test_a_rule_beside_the_folder_runs_and_its_change_is_a_change(tmp_path: Path) -> None:
    """A promotion of a model changes what its rule computes, and neither its id nor its version."""
    copy(rules_folder() / FILES[0], tmp_path)
    terms = [(NOON, ONE)]
    found = RuleFolder(tmp_path, sound, lambda: [ruled(*terms)])
    before = looked(found)

    assert {rule.id for rule in before.rules} > {ruled(*terms).id}
    assert found.look() is None
    terms.append((NOON, None))
    assert looked(found).changes(before) == {
        "changed": [f"{ruled(*terms).id} {ruled(*terms).version}"]
    }


def test_other_words_about_a_rule_change_nothing_that_is_raised(tmp_path: Path) -> None:
    found = folder(tmp_path)
    before = found.current
    edit(tmp_path / FILES[0], "title: ", "title: New ")

    assert looked(found).changes(before) == {}


def test_a_muted_rule_raises_nothing_until_its_line_is_gone(tmp_path: Path) -> None:
    found = folder(tmp_path)
    first, before = found.current.rules[0], found.current

    (tmp_path / MUTED).write_text(f"{first.id}  # noise since the update\n")

    muted = looked(found)
    assert muted.muted == (first,)
    assert muted.changes(before) == {"muted": [f"{first.id} {first.version}"]}
    (tmp_path / MUTED).unlink()
    assert looked(found).changes(muted) == {"added": [f"{first.id} {first.version}"]}


def test_a_muted_rule_that_is_removed_is_recorded_once(tmp_path: Path) -> None:
    """Nothing that is raised changes, but who reads the record must see that it is gone."""
    found = folder(tmp_path)
    first = found.current.rules[0]
    (tmp_path / MUTED).write_text(first.id)
    muted = looked(found)

    (tmp_path / first.origin).unlink()

    gone = looked(found)
    assert gone.changes(muted) == {"removed": [f"{first.id} {first.version}"]}
    assert gone.changes(gone) == {}


def test_a_file_that_cannot_be_read_leaves_its_rule_as_it_runs(tmp_path: Path) -> None:
    """And the others follow their files."""
    found = folder(tmp_path)
    before = found.current
    (tmp_path / FILES[0]).write_text("title: [")
    (tmp_path / FILES[1]).unlink()

    new = looked(found)

    assert [each.origin for each in new.refused] == [FILES[0]]
    assert [rule.origin for rule in new.rules] == [FILES[0]]
    assert set(new.changes(before)) == {"removed"}


def test_a_rule_that_contradicts_its_examples_does_not_go_live(tmp_path: Path) -> None:
    """Its former version goes on; a rule that did not change is not tried again."""
    tried: list[str] = []

    def contradicts(rules: Sequence[Rule]) -> list[tuple[Rule, str]]:
        tried.extend(rule.origin for rule in rules)
        return [(rule, "stays quiet") for rule in rules] if len(tried) > 2 else []

    for name in FILES:
        copy(rules_folder() / name, tmp_path)
    found = RuleFolder(tmp_path, contradicts)
    before = looked(found)
    edit(tmp_path / FILES[0], "decode", "encode")

    new = looked(found)

    assert tried == [*sorted(FILES), FILES[0]]
    assert new.changes(before) == {}
    assert [(each.origin, each.reason) for each in new.refused] == [(FILES[0], "stays quiet")]


def test_a_folder_that_is_gone_leaves_all_rules_as_they_run(tmp_path: Path) -> None:
    """A volume that is unmounted for a moment must not switch detection off."""
    path = tmp_path / "rules"
    path.mkdir()
    found = folder(path)
    before = found.current
    rmtree(path)

    gone = looked(found)

    assert gone.changes(before) == {}
    assert "there is no folder" in gone.refused[0].reason
    path.mkdir()
    for name in FILES:
        copy(rules_folder() / name, path)
    assert looked(found).changes(before) == {}


def test_a_threshold_rule_is_changed_by_a_change_of_the_rule_that_it_counts(tmp_path: Path) -> None:
    """Which raises nothing of its own any more."""
    found = folder(tmp_path)
    text = (tmp_path / FILES[0]).read_text()
    id_ = next(line.split()[1] for line in text.splitlines() if line.startswith("id:"))
    (tmp_path / "often.yml").write_text(
        "title: often\n"
        "id: 00000000-0000-4000-8000-000000000009\n"
        f"correlation: {{type: event_count, rules: [{id_}], timespan: 1m, condition: {{gte: 5}}}}\n"
    )
    before = found.current
    added = looked(found)
    edit(tmp_path / FILES[0], "decode", "encode")

    changed = looked(found)

    assert {kind: len(names) for kind, names in added.changes(before).items()} == {
        "added": 1,
        "removed": 1,
    }
    assert {kind: len(names) for kind, names in changed.changes(added).items()} == {"changed": 1}


def test_a_start_goes_on_with_other_rules_and_then_with_those_of_the_folder(tmp_path: Path) -> None:
    """The difference between the two is a change like any other; the files are not read again for it."""
    found = folder(tmp_path)
    kept, gone = found.current.rules
    read = found.current

    found.goes_on_with([kept])

    assert found.current.rules == (kept,)
    assert looked(found) is read
    assert read.changes(RuleSet(rules=(kept,))) == {"added": [f"{gone.id} {gone.version}"]}
    assert found.look() is None


def test_a_rule_whose_file_was_broken_meanwhile_goes_on_after_a_start(tmp_path: Path) -> None:
    """As it does in a process that runs."""
    before = folder(tmp_path).current
    (tmp_path / FILES[0]).write_text("title: [")
    found = RuleFolder(tmp_path, sound)
    assert len(looked(found).rules) == 1

    found.goes_on_with(before.rules)

    assert looked(found).changes(before) == {}
    assert len(found.current.rules) == 2
