"""What a server needs to start, and what does not keep it from starting."""

import socket
from pathlib import Path

from jobs.engine.service import sql_users
from jobs.silver import device_telemetry
from tests.cli.serving import PASSWORD, asked_lake, serving
from tests.cli.typed import strandline
from tests.engine.written import small_lake
from tests.support.jdbc import driver


def test_a_server_needs_a_lake_users_and_a_free_port(tmp_path: Path) -> None:
    """And for a network, TLS."""
    nowhere = strandline("serve", "--lake", tmp_path / "nowhere")
    lake = small_lake(tmp_path / "lake")
    without_users = strandline("serve", "--lake", lake.root)
    sql_users.add(lake, "ana", PASSWORD)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        second = strandline("serve", "--lake", lake.root, "--port", taken.getsockname()[1])
    in_clear = strandline("serve", "--lake", lake.root, "--host", "0.0.0.0")  # noqa: S104  # it is refused

    for answer, words in (
        (nowhere, "there is no lake"),
        (without_users, "add-user"),
        (second, "cannot be used"),
        (in_clear, "--tls-cert"),
    ):
        assert answer.code == 2
        assert words in answer.err
        assert "hint:" in answer.err


def test_a_damaged_table_and_a_variable_of_hives_take_nothing_away(tmp_path: Path) -> None:
    """Hive's server prefers variables to its configuration: it would listen elsewhere, without TLS."""
    lake = asked_lake(tmp_path / "lake")
    log = Path(lake.table(device_telemetry.TABLE)) / "_delta_log" / "00000000000000000000.json"
    log.write_text(log.read_text()[:40])
    elsewhere = {"HIVE_SERVER2_THRIFT_BIND_HOST": "127.0.0.3", "HIVE_SERVER2_THRIFT_PORT": "1"}
    said = tmp_path / "out.log"

    with (
        serving(lake, said, "--memory", "768m", "--nice", 0, env=elsewhere) as url,
        driver() as jdbc,
        jdbc.connected(url, "ana", PASSWORD) as ana,
    ):
        assert ana.value("SELECT count(*) FROM silver.user_actions") == "3"

    assert "silver.device_telemetry cannot be shown" in said.read_text()
