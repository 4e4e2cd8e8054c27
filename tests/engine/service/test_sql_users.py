"""Users of the SQL server are added and removed one after the other, however many do it at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from strandline.engine.lake.lake import Lake
from strandline.engine.service import sql_server

NAMES = [f"user{number}" for number in range(12)]


def test_of_users_that_are_added_at_once_each_is_there(tmp_path: Path) -> None:
    """Each read the users and wrote them with its own, so one of two was lost."""
    lake = Lake(tmp_path)
    with ThreadPoolExecutor(len(NAMES)) as pool:
        [*pool.map(lambda name: sql_server.add(lake, name, "a long password"), NAMES)]
    assert sorted(sql_server.users(lake)) == sorted(NAMES)

    with ThreadPoolExecutor(len(NAMES)) as pool:
        [*pool.map(lambda name: sql_server.remove(lake, name), NAMES[1:])]
    assert [*sql_server.users(lake)] == NAMES[:1]
