"""What a server needs to start; what does not keep it from starting is in test_serve.py."""

import socket
from pathlib import Path

import pytest

from strandline.engine.service import sql_server
from tests.cli.serving import PASSWORD
from tests.cli.typed import strandline
from tests.engine.written import small_lake

pytestmark = pytest.mark.whole


def test_a_server_needs_a_lake_users_and_a_free_port(tmp_path: Path) -> None:
    """And for a network, TLS."""
    nowhere = strandline("serve", "--lake", tmp_path / "nowhere")
    lake = small_lake(tmp_path / "lake")
    without_users = strandline("serve", "--lake", lake.root)
    sql_server.add(lake, "ana", PASSWORD)
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
