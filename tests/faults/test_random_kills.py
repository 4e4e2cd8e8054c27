"""Operations of every kind on one lake with all tables, each killed at a random change of the disk and done again.

Nothing is lost and nothing is there twice: the ledger balances after each round, and at the end the lake is compared with
one that read the same topics undisturbed.
"""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from strandline import catalog

from strandline.engine.lake.place import Place
from tests.cli import inside
from tests.cli.inside import succeeded
from tests.faults.disk import outcomes
from tests.faults.disk.recording import NEVER, Recorder
from tests.support.proofs import Times

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(36000)]

SILVER, GOLD = "silver.device_telemetry", "gold.device_signal_10m"
BEGIN, SPAN = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=3)
SAY = ("--reason", "late", "--because", "a test of the line")
RUN = ("run",)
COMMANDS = (
    *[RUN] * 5,
    ("run", "--max-offsets", "200"),
    ("maintain", "--keep", "0s"),
    ("program", "close_books"),
    ("quarantine", "replay", SILVER),
    ("quarantine", "discard", SILVER, *SAY),
    ("rebuild", SILVER),
    ("promote", SILVER),
    ("undo", SILVER),
    ("rebuild", GOLD),
    ("promote", GOLD),
)
MOST = 150
"""Changes of the disk within which a command is killed; one that makes fewer ends by itself."""


@pytest.mark.prove(alone="half a minute a round")
def test_random_kills_of_every_operation_lose_nothing_and_double_nothing(
    fresh: Place, address: str, tmp_path: Path, times: Times
) -> None:
    """The seed is printed; the moments depend on the machine too."""
    rounds, seed = times(1, 200), random.SystemRandom().randrange(10**6)
    chance, killed = random.Random(seed), 0  # noqa: S311  # moments, not secrets
    (tmp_path / "recorder").mkdir()
    for number in range(rounds):
        since = (
            BEGIN + number * SPAN
        )  # later than the round before, or its rows would be disordered
        span = (
            "--since",
            f"{since:%Y-%m-%dT%H:%M:%S}",
            "--until",
            f"{since + SPAN:%Y-%m-%dT%H:%M:%S}",
        )
        events = ("produce", "--events", 1_000, "--seed", seed + number, *span)
        succeeded(*events, "--lake", fresh)
        words, halt = chance.choice(COMMANDS), int(MOST ** chance.uniform(0.2, 1))
        if not number:  # all tables are made, and every write of a run is met
            words, halt = RUN, NEVER
        elif words[0] == "run":
            words = (*words, *some_tables(chance))
        recorder = Recorder(
            lake=fresh, folder=tmp_path / "recorder", halt=halt, env={"STRANDLINE_KAFKA": address}
        )
        answer, journal = recorder.run(*words, "--lake", fresh)
        outcomes.hit(journal)
        killed += answer is None
        print(f"seed {seed}, round {number + 1}: {' '.join(words)}, change {halt}", flush=True)  # noqa: T201  # shown when it fails
        if words[0] != "program":
            again = inside.strandline(*words, "--lake", fresh, env={"STRANDLINE_KAFKA": address})
            assert again.code == 0 or "hint: " in again.printed, again.printed
            assert "unforeseen" not in again.printed, again.printed
        is_balanced(fresh)
    for table in (SILVER, GOLD):  # a promotion may have been killed last
        inside.strandline("promote", table, "--lake", fresh)
    clean = tmp_path / "clean"
    for lake in (fresh, clean):
        succeeded("run", "--lake", lake, env={"STRANDLINE_KAFKA": address})
        is_balanced(lake)
    differing = inside.strandline("compare", fresh, clean)
    outcomes.keep(
        "random kills over the whole domain",
        f"{killed} kills in {rounds} rounds, seed {seed}",
        [] if differing.code == 0 else [differing.printed],
        "0 lost, 0 doubled, balanced each time",
    )
    assert differing.code == 0, differing.printed


def some_tables(chance: random.Random) -> list[str]:
    """Return a table and what it needs, but not always all of that; a run of all tables takes half a minute."""
    last = chance.choice(catalog.tables())
    return [each.id for each in (*last.needs, last) if each == last or chance.random() < 0.8]


def is_balanced(lake: Path) -> None:
    """See that the books balance; the answer is empty before the first run."""
    answer: Any = inside.strandline("ledger", "--lake", lake, "--json")
    assert answer.code == 0 or not answer.out.strip(), answer.printed
    if answer.code == 0:
        assert all(sheet["balanced"] for sheet in answer.json), answer.printed
