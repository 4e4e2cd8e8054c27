"""``strandline deliver`` refuses what cannot work before it reads anything, and ``status`` shows its figures."""

from pathlib import Path

import pytest

from strandline.alerting.alert_rule import rules_folder
from strandline.alerting.courier import Books
from strandline.alerting.notice import RuleWords
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import hold
from strandline.operate.alerts.examples import RuleTexts
from tests.cli.inside import strandline, succeeded
from tests.rules.sigma.broken import about
from tests.support.feeds import DECODES

HOOK = "http://127.0.0.1:9/hook"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "no receiver is named"),
        (("--to", "pigeon"), "'pigeon' is no receiver"),
        (("--to", "pigeon:secret"), "cannot be delivered to pigeon:"),
        (("--to", "http://{user}@127.0.0.1/"), "cannot be delivered to http:"),
        (("--to", "http://{nothing}/secret"), "cannot be delivered to http:"),
        (("--to", "http://127.0.0.1:secret/"), "cannot be delivered to http:"),
        (("--to", "file:{folder}"), "cannot be delivered to file:"),
        (("--to", "kafka:alerts"), "cannot be delivered to kafka:"),
        (("--to", "kafka:no topic"), "cannot be delivered to kafka:"),
        (("--to", HOOK, "--severity", "loud"), "loud is no severity"),
        (("--to", HOOK, "--every", "soon"), "'soon' is no length of time"),
        (("--to", HOOK, "--every", "rule=0s"), "'0s' is no length of time"),
        (("--to", HOOK, "--rules", "{folder}/none"), "there is no folder"),
        (("--to", HOOK), "no broker runs"),
    ],
)
def test_what_cannot_work_is_refused_at_once_and_nothing_secret_is_repeated(
    tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    """A receiver's address is often its password."""
    given = [word.format(folder=tmp_path, user="me:secret", nothing="") for word in words]

    answer = strandline("deliver", *given, "--lake", tmp_path / "lake")

    assert answer.code == 2, answer.printed
    assert reason in answer.err
    assert "secret" not in answer.printed
    assert not Lake(tmp_path / "lake").deliveries.exists()


def test_the_status_has_the_receivers_of_a_lake(tmp_path: Path) -> None:
    """One is alive as long as a process holds its lease, whatever its books have."""
    lake = Lake(tmp_path)
    waits = Books(receiver="http://127.0.0.1:9", delivered=1_000, notices=2, lag=5, away="it waits")
    (lake.deliveries / "webhook-1.json").put(waits.text())

    with hold(lake.deliveries / "webhook-1.lock", '{"pid": 7}'):
        alive = succeeded("status", "--lake", tmp_path).out
    (gone,) = succeeded("status", "--lake", tmp_path, "--json").json["deliveries"]

    assert "notices to http://127.0.0.1:9: process 7" in alive
    assert "1,000 alerts in 2 notices, 0 alerts wait, 5 to read" in alive
    assert "waits: it waits" in alive
    assert (gone["process"], gone["delivered"]) == (None, 1_000)


def test_books_that_cannot_be_read_do_not_hide_the_status(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    (lake.deliveries / "webhook-1.json").put("{")

    assert "notices to webhook-1.json: not running" in succeeded("status", "--lake", tmp_path).out


def test_what_people_read_of_a_rule_is_in_its_file() -> None:
    texts = RuleTexts(rules_folder)

    assert texts.of(DECODES.id) == RuleWords(
        title=DECODES.title, owner=DECODES.owner, runbook=DECODES.runbook
    )
    assert DECODES.runbook
    assert texts.of("none") == RuleWords()


def test_a_rule_that_is_new_in_the_folder_is_found_after_a_while(tmp_path: Path) -> None:
    """The folder is not read for each alert of a rule that is gone."""
    now = [0.0]
    texts = RuleTexts(lambda: tmp_path, lambda: now[0])
    first = texts.of(DECODES.id)
    (tmp_path / "rule.yml").write_text((rules_folder() / DECODES.origin).read_text())
    (tmp_path / "broken.yml").write_text(about("Colour", "red"))
    at_once = texts.of(DECODES.id)
    now[0] += 11
    later = texts.of(DECODES.id)

    assert first == at_once == RuleWords()
    assert later.title == DECODES.title
