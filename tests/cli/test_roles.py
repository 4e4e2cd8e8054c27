"""Who may do what is in one file of the lake, for every way to it; what is not allowed is refused, and written down."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from strandline import catalog

from fleet.silver import user_actions
from strandline.core.errors import DefinitionError
from strandline.core.topic import QUARANTINE
from strandline.engine.ask.lake_reader import lake as opened
from strandline.engine.lake import order_log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.order_log import Asked, Order, newest, roles_of
from strandline.engine.runtime import clock, settings
from strandline.engine.runtime.roles import Role, RoleError
from strandline.engine.service import sql_server
from strandline.operate.lake_page import LakePage
from strandline.operate.orders import NEEDS
from tests.architecture.tree import ROOT
from tests.cli.inside import strandline, succeeded
from tests.cli.typed import Answer
from tests.engine.written import GOLD, SILVER, entry, small_lake
from tests.support import by_hand
from tests.support.agent import Agent, Heard, inside, lake_to_ask, log_of
from tests.support.rows import NOON

PEOPLE = """
contact = "the data platform"

[people]
rea = ["read"]
una = ["unmask"]
ops = ["operate"]
rep = ["repair"]
none = []
"""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a small lake with people of one role each."""
    lake = small_lake(tmp_path / "lake")
    lake.roles.put(PEOPLE)
    return lake


def orders(lake: Lake) -> list[Order]:
    """Return the orders, the newest first."""
    return newest(lake, Asked()).orders


def typed(who: str, lake: Lake, *words: object) -> Answer:
    """Type a verb as a person."""
    return strandline(*words, "--lake", lake.root, env={"STRANDLINE_IDENTITY": who})


ASK = ("ledger",)
UNMASK = ("query", f"FROM {SILVER.id}", "--unmasked", "case 17")
OPERATE = ("pause",)
REPAIR = ("retire", GOLD.id, "--because", "a test")
ALLOWED = {
    "rea": {ASK},
    "una": {ASK, UNMASK},
    "ops": {ASK, OPERATE},
    "rep": {ASK, REPAIR},
    "none": set[tuple[str, ...]](),
    "stranger": set[tuple[str, ...]](),
}


@pytest.mark.parametrize("who", ALLOWED)
def test_each_role_allows_its_verbs_and_no_other(who: str, lake: Lake) -> None:
    """What is refused names the role, the file and who can change it, and is in the log of orders."""
    for words in (ASK, UNMASK, OPERATE, REPAIR):
        before = len(orders(lake))
        answer = typed(who, lake, *words)

        if words in ALLOWED[who]:
            assert "needs the role" not in answer.printed
            assert answer.code == 0, answer.printed
            continue
        message = " ".join(answer.err.split())
        assert answer.code == 2
        assert answer.out == ""
        assert f"`strandline {words[0]}` needs the role" in message
        assert f"and {who} has" in message
        assert f"are in {lake.roles}; the data platform can change it" in message
        refused, *_ = orders(lake)
        assert len(orders(lake)) == before + 1
        assert (refused.who, refused.verb, refused.state) == (who, words[0], "refused")


def test_a_question_of_a_verb_that_repairs_needs_to_read_alone(lake: Lake) -> None:
    """Requests to forget are listed; what one would find says what is masked, and needs the role of one who does it."""
    assert typed("rea", lake, "gate").code == 0
    assert typed("rea", lake, "maintain", "--dry-run").code == 0
    assert typed("rea", lake, "maintain").code == 2
    assert typed("rea", lake, "gate", "--open", "why").code == 2
    assert typed("rea", lake, "forget").code == 0
    assert typed("rea", lake, "forget", "--scrub", "--go").code == 2
    for words in (("--search", "alice"), ("--where", "user_id = 'alice'")):
        looked = typed("rea", lake, "forget", *words)
        assert (looked.code, "needs the role repair" in " ".join(looked.err.split())) == (2, True)


def test_without_a_file_all_may_do_all(tmp_path: Path) -> None:
    """As before."""
    lake = small_lake(tmp_path / "lake")

    assert typed("stranger", lake, *UNMASK).code == 0
    assert roles_of(lake).of("stranger") == {*Role}


def test_all_others_have_what_the_star_has(lake: Lake) -> None:
    """A line of one's own replaces it."""
    lake.roles.put('[people]\n"*" = ["operate"]\nrea = ["read"]\n')

    assert typed("stranger", lake, *OPERATE).code == 0
    assert typed("rea", lake, *OPERATE).code == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no [people]"),
        ("[people]\nann = ['reed']", "reed, which is no role"),
        ("[people]\nann = 'read'", "ann has no list"),
        ("[persons]\nann = ['read']", "persons is no part"),
        ("[people", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_allows_nothing(text: str, says: str, lake: Lake) -> None:
    """And says what to write, and who can."""
    lake.roles.put(text)

    answer = typed("rea", lake, *ASK)

    assert answer.code == 2
    assert says in answer.err
    assert f"{lake.roles.local.owner()}, who owns it, can correct it" in " ".join(
        answer.err.split()
    )
    with pytest.raises(DefinitionError):
        sql_server.admitted(lake)


def test_python_asks_the_same_roles(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within a session whose role was taken away."""
    monkeypatch.setenv("STRANDLINE_IDENTITY", "una")
    readable = opened(str(lake.root), unmasked="case 17")
    assert readable[SILVER.id].arrow().num_rows == 3

    lake.roles.put(PEOPLE.replace('una = ["unmask"]', 'una = ["read"]'))
    with pytest.raises(RoleError, match="unmask"):
        readable[SILVER.id].arrow()
    assert opened(str(lake.root))[SILVER.id].arrow().num_rows == 3
    monkeypatch.setenv("STRANDLINE_IDENTITY", "stranger")
    with pytest.raises(RoleError, match=re.escape("lake() needs the role read")):
        opened(str(lake.root))

    stranger, una = orders(lake)[:2]
    assert (stranger.who, stranger.verb, stranger.over) == ("stranger", "lake()", "python")
    assert (una.who, una.verb) == ("una", "unmask")
    assert {stranger.state, una.state} == {"refused"}


def test_who_may_not_unmask_finds_no_question_by_what_is_in_it(lake: Lake) -> None:
    """Else each word could be guessed at; by the name of a table it is found."""
    sql = f"FROM {SILVER.id} WHERE 'alice' = 'alice'"
    typed("una", lake, "query", sql, "--unmasked", "case 17")

    def found(who: str, word: str) -> bool:
        return "case 17" in typed(who, lake, "who", word).out

    assert found("una", "alice")
    assert not found("rea", "alice")
    assert not found("rea", "bob")
    assert found("rea", SILVER.id)


def test_what_was_asked_unmasked_is_shown_to_those_who_may_unmask(lake: Lake) -> None:
    """A question may have a value that is masked."""
    typed("una", lake, *UNMASK)

    assert "FROM silver" in typed("una", lake, "who").out
    shown = typed("rea", lake, "who")
    assert "[hidden]" in shown.out
    assert "FROM silver" not in shown.printed
    assert "case 17" in shown.out


def test_users_of_jdbc_are_those_whom_the_roles_let_in(lake: Lake) -> None:
    """Unmasked whom they let unmask; without a file as they were added."""
    for name in ("rea", "una", "ops", "stranger"):
        sql_server.add(lake, name, "a long password", unmasked="case 17")

    admitted = sql_server.admitted(lake)
    text = admitted.text() or ""
    lake.roles.remove()

    assert [*re.findall(r'"(\w+)": \{', text)] == ["rea", "una", "ops"]
    assert text.count('"unmasked": null') == 2
    assert sql_server.admitted(lake) == sql_server.place_of(lake)


def test_a_user_may_be_given_to_see_what_is_masked_by_one_who_may(lake: Lake) -> None:
    """Else who adds users would see all by one of them."""
    lake.roles.put(PEOPLE + 'both = ["operate", "unmask"]\n')
    words = ("serve", "add-user", "eve", "--unmasked", "fraud team")

    assert typed("ops", lake, *words).code == 2
    assert typed("una", lake, *words).code == 2
    assert "needs the role" not in typed("both", lake, *words).err


def test_an_agent_is_refused_once_who_started_its_server_may_not_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within seconds, and in the log of its calls."""
    monkeypatch.setenv("STRANDLINE_IDENTITY", "rea")
    monkeypatch.setattr(order_log, "ROLES_EVERY", 0.0)

    async def work(agent: Agent) -> list[Heard]:
        page = f"strandline://declarations/{SILVER.id}"
        before = [await agent.call("tables"), await agent.read(page)]
        lake.roles.put("[people]\nann = ['read']")
        return [*before, await agent.read(page), await agent.call("tables")]

    allowed, shown, hidden, refused = inside(lake, lambda: NOON + timedelta(days=365), work)

    assert not allowed.is_refused, allowed.text
    assert not shown.is_refused, shown.text
    assert "needs the role read" in hidden.text
    assert hidden.is_refused
    assert refused.is_refused
    assert "needs the role read" in refused.text
    assert str(lake.root) not in refused.text
    assert "needs the role" in log_of(lake)[-1]["message"]


def test_the_page_is_for_those_who_may_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs it is asked for; its door is the server's."""
    page = LakePage(settings.settings(lake=str(lake.root)), lake, clock.now)
    monkeypatch.setenv("STRANDLINE_IDENTITY", "rea")
    page.refuse_stranger()

    monkeypatch.setattr(order_log, "ROLES_EVERY", 0.0)
    again = LakePage(settings.settings(lake=str(lake.root)), lake, clock.now)
    monkeypatch.setenv("STRANDLINE_IDENTITY", "stranger")
    for _ in range(3):  # a page asks every few seconds
        with pytest.raises(RoleError, match="the page for the lake"):
            again.refuse_stranger()

    (refused,) = orders(lake)
    assert (refused.who, refused.verb, refused.over) == ("stranger", "page", "page")
    assert refused.state == "refused"


def test_the_page_of_the_docs_has_each_verb_under_its_role() -> None:
    """It is where people look before they write the file."""
    page = (ROOT / "infra/docs/roles.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", page, re.MULTILINE))
    free = next(line for line in page.splitlines() if line.startswith("These touch no lake, "))

    assert {*rows} == {*Role}
    for verb, need in NEEDS.items():
        row = free if need.role is None else rows[need.role]
        assert f"`{verb}`" in row, verb
        assert not need.by or f"`{verb}` with" in row, verb
    assert succeeded("explain", "who").out


# What would say that a masked value is there: the log of what others asked, a key, a rule of one's own.


ACTIONS = user_actions.TABLE
HELD = ("user-actions", 0, 9, NOON, ["missing_event_at"], NOON, None, b'{"user_id": "alice"}', None)


@pytest.fixture
def asked(tmp_path: Path) -> Lake:
    """Return a lake in which a record is held whose payload has a name, and no key."""
    lake = lake_to_ask(tmp_path / "lake")
    rows = by_hand.table(QUARANTINE, [HELD])
    by_hand.commit(lake.quarantine(ACTIONS), [rows], entry(ACTIONS, quarantined={"x": 1}).encoded())
    lake.roles.put(PEOPLE)
    return lake


def test_the_calls_of_agents_are_shown_to_those_who_may_unmask(asked: Lake) -> None:
    """As questions that were answered unmasked are; how programs run is shown to each."""

    async def work(agent: Agent) -> None:
        await agent.call("why", event="alice", table=ACTIONS.id)

    inside(asked, lambda: NOON, work)
    asked.log("stream").put('{"event": "begun", "level": "info", "time": "2026-11-20T12:00:00Z"}\n')

    for who in ("rea", "ops", "rep", "none"):
        refused = typed(who, asked, "logs", "--of", "mcp")
        assert (refused.code, refused.out) == (2, "")
        assert "`strandline logs` needs the role unmask" in " ".join(refused.err.split())
        assert "the data platform can change it" in " ".join(refused.err.split())
    assert (orders(asked)[0].verb, orders(asked)[0].state) == ("logs", "refused")
    assert "alice" in typed("una", asked, "logs", "--of", "mcp").succeeded().out
    assert "begun" in typed("none", asked, "logs").succeeded().out
    asked.roles.remove()
    assert "alice" in typed("rea", asked, "logs", "--of", "mcp").succeeded().out


def test_no_way_says_whether_a_payload_has_a_masked_value(
    asked: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a verb, nor Python, nor the page: the answer about a value that is there is that about another."""

    def said(who: str, value: str) -> list[str]:
        monkeypatch.setenv("STRANDLINE_IDENTITY", who)
        verb = typed(who, asked, "why", value, "--in", ACTIONS.id, "--quick", "--json").succeeded()
        page = LakePage(settings.settings(lake=str(asked.root)), asked, clock.now)
        found = [
            json.loads(verb.out)["verdict"],
            opened(str(asked.root)).why(value, ACTIONS.id).verdict,
            page.why(value, ACTIONS.id)["verdict"],
        ]
        each = typed(who, asked, "why", value, value, "--in", ACTIONS.id, "--quick").succeeded()
        return [*map(str, found), each.out.replace(value, "VALUE")]

    assert said("rea", "alice") == said("rea", "carol")
    assert said("rea", "alice")[:3] == ["unknown"] * 3
    assert said("una", "alice")[:3] == ["quarantined", "quarantined", "unknown"]
    assert said("una", "carol") != said("una", "alice")
    place = typed("rea", asked, "why", "user-actions/0/9", "--json").succeeded()
    # Bronze has no such table here; by its place each may ask.
    assert json.loads(place.out)["verdict"] == "not read yet"


def test_a_key_that_is_masked_is_no_question(asked: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of who may not unmask, by whichever way; the error names the column, and by what else an event is found."""
    masked = replace(ACTIONS, sensitive=("user_id", "action_id"))
    tables = tuple(masked if each is ACTIONS else each for each in catalog.tables())
    monkeypatch.setattr(catalog, "tables", lambda: tables)
    monkeypatch.setenv("STRANDLINE_IDENTITY", "rea")
    page = LakePage(settings.settings(lake=str(asked.root)), asked, clock.now)

    async def work(agent: Agent) -> Heard:
        return await agent.call("why", event="a1", table=ACTIONS.id)

    for value in ("a1", "nowhere"):
        refused = typed("rea", asked, "why", value, "--in", ACTIONS.id, "--quick")
        message = " ".join(refused.err.split())
        assert refused.code == 2
        assert "action_id of silver.user_actions is masked, so no value of it can be" in message
        assert "name the event by its place in Kafka: TOPIC/PARTITION/OFFSET" in message
        for way in (page, opened(str(asked.root))):
            with pytest.raises(DefinitionError, match="is masked, so no value of it"):
                way.why(value, ACTIONS.id)
    assert "is masked, so no value of it" in inside(asked, lambda: NOON, work).text
    assert typed("una", asked, "why", "nowhere", "--in", ACTIONS.id, "--quick").code == 0


RULE = """
title: Someone was here
id: 5f1c5d0e-9d0b-4a43-8a0e-6d6a4a2b7c11
status: test
logsource: {service: process_events}
detection:
    someone: {COLUMN: alice}
    condition: someone
level: low
"""


def test_a_rule_of_ones_own_compares_nothing_that_is_masked(asked: Lake, tmp_path: Path) -> None:
    """How often it would have fired says what rows have; rules of the project are for all who read."""
    own = tmp_path / "rules"
    own.mkdir()
    place = ("--event", "process-events/0/1", "--rules", own)

    def refused(who: str, column: str, *words: object) -> bool:
        (own / "someone.yml").write_text(RULE.replace("COLUMN", column))
        answer = typed(who, asked, "rules", *words)
        assert answer.code == 2, answer.printed  # the lake has none of these events
        message = " ".join(answer.err.split())
        is_refused = f"compares {column} of silver.process_events, which is masked" in message
        assert not is_refused or "the role unmask may try the rule" in message
        return is_refused

    for words in (
        ("backtest", own),
        ("backtest", own / "someone.yml"),
        ("backtest", "--against", own),
        ("explain", *place),
    ):
        assert refused("rea", "User", *words), words
        assert not refused("una", "User", *words), words
        assert not refused("rea", "Image", *words), words
    assert not refused("rea", "User", "backtest")
