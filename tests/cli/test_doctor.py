"""``strandline doctor --profile`` tries each thing that a profile names, and names what fails."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.typed import Answer, strandline

pytestmark = pytest.mark.whole

PROFILES = """
[project]
tables = "shop"

[profile.prod]
lake = "data"
kafka = "127.0.0.1:{closed}"
master = "spark://127.0.0.1:{closed}"
postgres = {{ env = "SHOP_POSTGRES" }}
webhook = {{ file = "webhook" }}

[profile.near]
lake = "data"
master = "spark://127.0.0.1:{closed},127.0.0.1:{open}"
webhook = {{ env = "SHOP_WEBHOOK" }}

[profile.plain]
postgres = "postgresql://ann:hunter2@127.0.0.1:{closed}/runs"
"""


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Return a port that takes no connection, and one that does."""
    with socket.socket() as closed, socket.socket() as taken:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: no other program gets it
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield closed.getsockname()[1], taken.getsockname()[1]


@pytest.fixture(scope="module")
def shop(ports: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with profiles and one package without tables."""
    closed, taken = ports
    root = tmp_path_factory.mktemp("shop")
    (root / "strandline.toml").write_text(PROFILES.format(closed=closed, open=taken))
    (root / "webhook").write_text(f"http://127.0.0.1:{closed}/hunter2\n")
    (root / "shop").mkdir()
    (root / "shop" / "__init__.py").touch()
    return root


def doctor(shop: Path, *words: str, port: int = 1) -> Answer:
    """Ask in the project's folder."""
    env = {
        "SHOP_POSTGRES": f"postgresql://ann:hunter2@127.0.0.1:{port}/runs",
        "SHOP_WEBHOOK": f"http://127.0.0.1:{port}/hunter2",
    }
    return strandline(*words, "--json", cwd=shop, env=env)


def test_it_names_each_thing_that_fails(shop: Path, ports: tuple[int, int]) -> None:
    """And shows no secret; the database's password and the webhook's path are such."""
    answer = doctor(shop, "doctor", "--profile", "prod", port=ports[0])

    checks = {each["name"]: each for each in json.loads(answer.out)}
    failed = {name for name, each in checks.items() if not each["ok"]}
    assert answer.code == 2
    assert {"kafka", "history", "cluster", "webhook"} <= failed
    assert not {"settings", "lake", "tables"} & failed
    assert all(checks[name]["hint"] for name in failed)
    assert checks["lake"]["detail"].startswith(str(shop / "data"))
    assert "profile prod" in checks["settings"]["detail"]
    assert "hunter2" not in answer.printed


def test_a_cluster_with_one_master_that_answers_is_there(
    shop: Path, ports: tuple[int, int]
) -> None:
    """As Spark itself takes it; and the option may come before the verb as well."""
    answer = doctor(shop, "--profile", "near", "doctor", port=ports[1])

    checks = {each["name"]: each for each in json.loads(answer.out)}
    assert checks["cluster"]["ok"]
    assert checks["webhook"]["ok"]
    assert "nothing was sent" in checks["webhook"]["detail"]


def test_a_secret_in_plain_text_is_what_fails(shop: Path) -> None:
    """Nothing is tried with it."""
    answer = doctor(shop, "doctor", "--profile", "plain")

    checks = {each["name"]: each for each in json.loads(answer.out)}
    assert not checks["settings"]["ok"]
    assert "{ env =" in checks["settings"]["detail"]
    assert "history" not in checks
    assert "hunter2" not in answer.printed


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (("--profile", "prd", "ledger"), {}),
        (("ledger",), {"STRANDLINE_PROFILE": "prd"}),
    ],
)
def test_an_unknown_profile_is_an_error_of_each_verb(
    words: tuple[str, ...], env: dict[str, str], shop: Path
) -> None:
    """With what is near; silently taking the defaults would answer about another lake."""
    answer = strandline(*words, cwd=shop, env=env)

    assert answer.code == 2
    assert "there is no profile prd" in answer.err
    assert "did you mean prod?" in answer.err
