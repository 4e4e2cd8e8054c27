"""The SQL server answers from a lake on an object store, and its keys are seen nowhere."""

from pathlib import Path

import pytest

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.cli.serving import PASSWORD, asked_lake, serving
from tests.engine.written import SILVER, entry, numbers, written
from tests.support.jdbc import SqlError, driver
from tests.support.lakes import copy
from tests.support.planted import holding
from tests.support.s3_server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.prove(alone="half a minute")
def test_a_dashboard_asks_a_lake_on_a_store(
    s3: S3Server, bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest commit, masks, and what is refused are those of a lake on a disk."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    env = {**s3.environment, "XDG_STATE_HOME": str(tmp_path / "state")}
    disk, lake = asked_lake(tmp_path / "disk"), Lake(bucket)
    copy(disk.root, bucket)
    log = tmp_path / "out.log"
    with (
        serving(lake, log, "--memory", "768m", "--nice", 0, env=env) as url,
        driver() as jdbc,
        jdbc.connected(url, "ana", PASSWORD) as ana,
        jdbc.connected(url, "eve", PASSWORD) as eve,
    ):
        count = "SELECT count(*) FROM silver.device_telemetry"
        assert ana.value(count) == "3"
        written(disk.table(SILVER), numbers(2), entry(SILVER, batch=1).encoded())
        copy(disk.root, bucket)
        assert ana.value(count) == "5"
        users = "SELECT DISTINCT user_id FROM silver.user_actions ORDER BY ALL"
        assert all(str(user).startswith("[") for (user,) in ana.rows(users))
        assert eve.rows(users) == [("alice",), ("bob",)]
        assert ana.value("SELECT _offset FROM quarantine.user_actions") == "8"
        seen = [str(ana.rows(f"EXPLAIN {count}"))]
        for sql in (
            *(f"FROM {kind}.`{lake.table(SILVER)}`" for kind in ("delta", "parquet")),
            "SET spark.hadoop.fs.s3a.secret.key",
            "SELECT '${env:AWS_SECRET_ACCESS_KEY}' FROM silver.device_telemetry WHERE 1 = 'x'",
            "INSERT INTO silver.device_telemetry SELECT * FROM silver.device_telemetry",
        ):
            with pytest.raises(SqlError) as caught:
                ana.rows(sql)
            seen.append(str(caught.value))
    planted = s3.key, s3.secret
    assert not any(word in each for word in planted for each in (*seen, log.read_text()))
    assert not holding(planted, tmp_path)
