"""``strandline metrics`` in a process of its own: it needs no JVM, serves until it is stopped, and sees what is new."""

import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.request import urlopen

import psutil
import pytest

from strandline.engine.runtime.processes import free
from tests.cli import inside
from tests.cli.typed import start
from tests.engine.written import BRONZE, entry, numbers, small_lake, written
from tests.support.otlp import receiving

T = TypeVar("T")
PATIENCE = 60.0
ADDRESS = re.compile(r"\S+:\d+/metrics")


def test_once_prints_the_page_and_ends(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)

    answer = inside.succeeded("metrics", "--once", "--lake", lake.root)

    assert 'strandline_rows_read_total{table="bronze.device_telemetry"} 5.0' in answer.out
    assert answer.out.endswith("\n")
    assert not answer.err


def test_once_sends_the_figures_where_a_receiver_is_named(tmp_path: Path) -> None:
    """For a schedule of another program, which has no page to scrape."""
    lake = small_lake(tmp_path)
    with receiving() as receiver:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.address}
        inside.succeeded("metrics", "--once", "--lake", lake.root, env=env)
        key = ("strandline_rows_read_total", "table=bronze.device_telemetry")
        receiver.until(lambda: receiver.figures.get(key) == 5)


def test_alarms_go_to_whom_the_settings_name_and_to_none_that_is_no_receiver(
    tmp_path: Path,
) -> None:
    """What is said has no secret."""
    lake, log = small_lake(tmp_path / "lake"), tmp_path / "log"
    words = ("metrics", "--port", 0, "--lake", lake.root)
    refused = inside.strandline(*words, env={"STRANDLINE_ALARMS": "http://127.0.0.1/s3cret"})
    assert refused.code == 2
    assert "s3cret" not in refused.err
    env = {
        "STRANDLINE_ALARMS": "slack+http://127.0.0.1:1/s3cret smtp://127.0.0.1:1?from=a@b&to=c@d"
    }
    process = start(*words, log=log, env=env)
    try:
        _until(lambda: ADDRESS.findall(log.read_text()), process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)
    assert code == 0, log.read_text()
    assert "alarms go to slack at 127.0.0.1:1, mail to c@d" in log.read_text()
    assert "s3cret" not in log.read_text()


def test_a_full_disk_of_its_log_ends_no_page(tmp_path: Path) -> None:
    """The page shows that the disk is full."""
    lake, port = small_lake(tmp_path / "lake"), free(0)
    env = {"STRANDLINE_ALARMS": "slack+http://127.0.0.1:1/x"}
    full = Path("/dev/full")
    words = ("--port", port, "--every", "100ms", "--lake", lake.root)
    process = start("metrics", *words, log=full, env=env)
    try:
        first = _until(lambda: _looked(port), process, tmp_path)
        _until(lambda: _looked(port) not in {"", first}, process, tmp_path)
    finally:
        process.kill()
        process.wait(PATIENCE)


def _looked(port: int) -> str:
    """Return when the page was made; nothing while there is none."""
    try:
        page = _read(f"http://127.0.0.1:{port}/metrics")
    except OSError:
        return ""
    looked = re.findall(r"^strandline_look_timestamp_seconds (.*)", page, re.MULTILINE)
    return looked[0] if looked else ""


@pytest.mark.whole
def test_it_serves_what_is_new_until_it_is_stopped_and_starts_no_jvm(tmp_path: Path) -> None:
    """A free port is printed, so that several may run beside each other."""
    lake, log = small_lake(tmp_path / "lake"), tmp_path / "log"
    words = ("--port", 0, "--every", "100ms", "--lake", lake.root)
    process = start("metrics", *words, log=log)
    try:
        address = _until(lambda: ADDRESS.findall(log.read_text()), process, log)[0]
        _until(lambda: " 5.0" in _read(address), process, log)
        more = entry(BRONZE, batch=2, offsets={"0": (5, 7)}, read=2, good=2, written=2)
        written(lake.table(BRONZE), numbers(2), more.encoded())
        seen = f'strandline_rows_read_total{{table="{BRONZE.id}"}} 7.0'
        _until(lambda: seen in _read(address), process, log)
        assert psutil.Process(process.pid).children(recursive=True) == []
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(PATIENCE)

    assert code == 0, log.read_text()


def _until(found: Callable[[], T], process: "subprocess.Popen[bytes]", log: Path) -> T:
    deadline = time.monotonic() + PATIENCE
    while not (answer := found()):
        assert process.poll() is None, log.read_text() if log.is_file() else process.poll()
        assert time.monotonic() < deadline, log.read_text() if log.is_file() else deadline
        time.sleep(0.05)
    return answer


def _read(address: str) -> str:
    with urlopen(address, timeout=10) as answer:  # noqa: S310  # the address that our own program printed
        text: str = answer.read().decode()
    return text
