"""Who ordered what is in the log of the lake, whichever verb it was; what is shown unmasked is there before it is shown."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer

from strandline.cli import main
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import FOLDER, Asked, Order, newest
from strandline.engine.lake.place import Place
from strandline.engine.runtime import clock, settings
from strandline.operate.orders import NEEDS, ordered
from tests.cli.inside import strandline, succeeded
from tests.engine.written import GOLD, SILVER, small_lake
from tests.support.s3_server import S3Server


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a small lake of the test's own."""
    return small_lake(tmp_path / "lake")


def orders(lake: Lake) -> list[Order]:
    """Return the orders, the newest first."""
    return newest(lake, Asked()).orders


def test_every_verb_that_can_be_typed_has_its_needs() -> None:
    """A new verb is red here until the one table says who may type it, and whether it is an order."""
    known = {verb for verb, _ in _typed()}

    assert known - {*NEEDS} == set()
    assert {*NEEDS} - known == set()


def test_every_option_that_decides_is_one_of_its_verb() -> None:
    """A renamed option would let an order pass as a question."""
    for verb, options in _typed():
        need = NEEDS[verb]
        named = {*need.by, *need.unless, *need.raised, *need.copies, *need.hides}
        lakes = {*need.lakes} if need.role is not None else set()
        assert named <= options, verb
        assert lakes <= options or lakes == {"lake"}, verb


def test_no_verb_is_typed_past_the_log() -> None:
    """Each function that typer calls is the one that writes its order down."""
    app = _loaded()

    with patch.object(main, "app", app):
        assert [
            verb for verb, each in main.typed() if not hasattr(each.callback, "is_ordered")
        ] == []


def _loaded() -> typer.Typer:
    app = typer.Typer()
    with patch.object(main, "app", app):
        main._load([])
    return app


def _typed() -> Iterator[tuple[str, set[str]]]:
    """Yield each verb with its options."""
    with patch.object(main, "app", _loaded()):
        for verb, each in main.typed():
            yield verb, {*typer.utils.get_params_from_function(each.callback)}


def test_an_order_is_written_with_its_end_and_a_question_is_not(lake: Lake) -> None:
    """What was typed, by whom, why, and what became of it."""
    succeeded("ledger", "--lake", lake.root)
    succeeded("pause", "--why", "the disk is moved", "--lake", lake.root)
    failed = strandline("promote", GOLD.id, "--lake", lake.root)

    promoted, paused = orders(lake)

    assert failed.code == 2
    assert (promoted.verb, promoted.tables, promoted.state) == ("promote", (GOLD.id,), "failed")
    assert promoted.message in failed.err
    assert (paused.verb, paused.why, paused.state) == ("pause", "the disk is moved", "done")
    assert (paused.who, paused.over, paused.role) == (clock.login(), "shell", "operate")
    assert paused.ended >= paused.at


def test_who_shows_them_the_newest_first(lake: Lake) -> None:
    """With what was asked; as JSON with all that is kept."""
    succeeded("query", f"FROM {SILVER.id}", "--unmasked", "case 17", "--lake", lake.root)
    succeeded("gate", GOLD.id, "--lake", lake.root)
    strandline("retire", GOLD.id, "--because", " ", "--lake", lake.root)

    shown = succeeded("who", "--lake", lake.root).out
    found: Any = succeeded("who", SILVER.id, "--json", "--lake", lake.root).json
    none = succeeded("who", "--by", "eve", "--lake", lake.root).out

    retired, asked = shown.splitlines()[1:3]
    assert "retire" in retired
    assert "failed" in retired
    assert f"FROM {SILVER.id}" in asked
    assert asked.rstrip().endswith("case 17")
    (only,) = found
    assert (only["verb"], only["state"], only["asked"]) == (
        "unmask",
        "shown",
        {"sql": f"FROM {SILVER.id}"},
    )
    assert "no such order" in none
    assert succeeded("who", "--since", "1d", "--last", "1", "--json", "--lake", lake.root).json
    assert strandline("who", "--since", "long ago", "--lake", lake.root).code == 2


def test_what_leaves_as_a_file_is_an_order(lake: Lake, tmp_path: Path) -> None:
    """A masked copy as well; an answer on the screen is none."""
    succeeded("query", f"FROM {SILVER.id}", "--to", tmp_path / "a.csv", "--lake", lake.root)
    succeeded("query", f"FROM {SILVER.id}", "--lake", lake.root)

    (copied,) = orders(lake)

    assert (copied.verb, copied.role, copied.asked["to"]) == (
        "query",
        "copy",
        str(tmp_path / "a.csv"),
    )


def test_an_order_that_is_killed_has_no_end(lake: Lake) -> None:
    """It was on the disk before it was begun."""
    code = (
        "import os, signal; from strandline.operate.orders import ordered\n"
        f"with ordered('backfill', {{'table': '{GOLD.id}', 'lake': '{lake.root}'}}, says=print):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )

    died = subprocess.run([sys.executable, "-c", code], check=False)

    assert died.returncode == -9
    assert [(each.verb, each.state) for each in orders(lake)] == [("backfill", "no end")]


def test_a_request_to_forget_is_in_the_log_by_its_hash(lake: Lake) -> None:
    """The log would say whom it is about, after all else had forgotten it."""
    succeeded("forget", "--search", "d-17", "--go", "--lake", lake.root)

    (order,) = orders(lake)
    text = "".join(file.text() or "" for file in (lake.root / FOLDER).files())

    assert (order.verb, order.state) == ("forget", "done")
    assert order.asked["text"].startswith("sha256 ")
    assert "d-17" not in text


def test_a_log_that_cannot_be_written_lets_repairs_go_on_and_shows_nothing(lake: Lake) -> None:
    """What is in its place is a file, as a person may leave one."""
    (lake.root / FOLDER).put("in the way")

    paused = succeeded("pause", "--lake", lake.root)
    refused = strandline("query", f"FROM {SILVER.id}", "--unmasked", "x", "--lake", lake.root)

    assert "is not in the log of orders" in paused.err
    assert refused.code == 2
    assert "cannot be written" in refused.err
    assert refused.out == ""


def test_what_belongs_to_an_order_is_not_written_down_again(lake: Lake) -> None:
    """A rewind recomputes by the function of a backfill."""
    words = {"table": GOLD.id, "lake": str(lake.root), "go": True}
    with ordered("rewind", words, says=print), ordered("backfill", words, says=print):
        pass

    assert [each.verb for each in orders(lake)] == ["rewind"]


def test_what_a_schedule_began_is_an_order_where_it_changes_rows_after_the_fact(lake: Lake) -> None:
    """A run each quarter of an hour would hide who did what."""
    for verb in ("run", "expire"):
        words = {"tables": (GOLD.id,), "go": True, "by": "a schedule"}
        with ordered(verb, words, says=print, lake=lake, over="dagster", is_automatic=True):
            pass

    assert [(each.verb, each.over) for each in orders(lake)] == [("expire", "dagster")]


def test_no_folder_gets_a_log_that_is_no_lake(tmp_path: Path) -> None:
    """A mistyped --lake would leave one in it."""
    strandline("promote", GOLD.id, "--lake", tmp_path)

    assert [*tmp_path.iterdir()] == []


def test_the_platform_says_who_it_is(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our setting, by JupyterHub, or by the account of a pod; the login name is the last resort."""
    succeeded("pause", "--lake", lake.root, env={"STRANDLINE_IDENTITY": "nightly job"})
    succeeded("pause", "--lake", lake.root, env={"JUPYTERHUB_USER": "ann"})
    token = tmp_path / "token"
    token.write_text("e30.eyJzdWIiOiAic3lzdGVtOnNlcnZpY2VhY2NvdW50OmxhazpzdHJlYW0ifQ.x")
    monkeypatch.setattr(settings, "SERVICE_ACCOUNT", token)
    succeeded("pause", "--lake", lake.root)
    token.write_text("no token")
    succeeded("pause", "--lake", lake.root)

    assert [each.who for each in orders(lake)][1:] == [
        "system:serviceaccount:lak:stream",
        "ann",
        "nightly job",
    ]
    assert orders(lake)[0].who == clock.login()


@pytest.mark.whole
def test_an_order_on_a_store_is_in_the_lake_itself(s3: S3Server, bucket: Place) -> None:
    """Each machine sees those of the others; so are the roles."""
    lake, env = Lake(bucket), dict(s3.environment)
    (lake.root / "bronze" / "x").put("")
    before = succeeded("who", "--lake", lake.root, env=env).out
    succeeded("pause", "--why", "a test", "--lake", lake.root, env=env)
    lake.roles.put('[people]\nann = ["read"]\n')
    ann = {**env, "STRANDLINE_IDENTITY": "ann"}
    refused = strandline("pause", "--lake", lake.root, env=ann)

    denied, paused = orders(lake)

    assert "no such order" in before
    assert (paused.verb, paused.why, paused.state) == ("pause", "a test", "done")
    assert (denied.who, denied.state) == ("ann", "refused")
    assert (refused.code, "who may write objects in s3a://" in refused.err) == (2, True)
    assert [each.name for each in (lake.root / FOLDER).files()] != []
