"""A real S3 server on loopback, for one run of the tests: SeaweedFS, out of a wheel.

It honours ``If-None-Match`` and ``If-Match`` (measured: of 50 writers at once one wins, 10 of 10 rounds), which not every
server does. Its data, its log and its settings are in one folder; it is ended by its process id.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from infra.broker import HOST
from jobs.engine.runtime.ports import bind

PROGRAM = Path(sys.executable).with_name("weed")
BUCKET = "lakes"
PATIENCE = 30.0
TRIES = 5
PORTS = ("master", "volume", "filer", "s3", "admin")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server.

    Args:
        address: Its URL.
        key: The access key.
        secret: The key to it.
        pid: Its process.
    """

    address: str
    key: str
    secret: str
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """Return what a program needs to reach it, by the names that all AWS tools know."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.address,
            "AWS_REGION": "us-east-1",
        }

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)


@contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    """Run a server with an empty bucket for the length of the block."""
    server, process = _started(folder)
    try:
        yield server
    finally:
        process.kill()
        process.wait()


def _started(folder: Path) -> "tuple[S3Server, subprocess.Popen[bytes]]":
    """Start one that answers; between the choice of a port and its use another program may take it."""
    key, secret = f"key{secrets.token_hex(4)}", secrets.token_hex(16)
    for attempt in range(TRIES):
        ports = {name: bind(0) for name in PORTS}
        process = start(folder / str(attempt), ports, key, secret)
        server = S3Server(
            address=f"http://{HOST}:{ports['s3']}", key=key, secret=secret, pid=process.pid
        )
        if _answers(server, process):
            return server, process
        process.kill()
        process.wait()
    raise RuntimeError(f"no S3 server started; the logs are in {folder}")


def start(
    folder: Path, ports: Mapping[str, int], key: str, secret: str
) -> "subprocess.Popen[bytes]":
    """Start the program over a folder, also one that a former server left."""
    data, config = folder / "data", folder / "s3.json"
    data.mkdir(parents=True, exist_ok=True)
    owner = {"accessKey": key, "secretKey": secret}
    allowed = {"name": "tests", "credentials": [owner], "actions": ["Admin"]}
    config.write_text(json.dumps({"identities": [allowed]}))
    command = [
        *(PROGRAM, "mini", f"-dir={data}", f"-ip={HOST}", f"-ip.bind={HOST}", "-webdav=false"),
        *("-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
        f"-s3.config={config}",
        *(f"-{name}.port={port}" for name, port in ports.items()),
        *(f"-{name}.port.grpc={bind(0)}" for name in PORTS),
    ]
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen([str(each) for each in command], stdout=log, stderr=log, cwd=folder)


def _answers(server: S3Server, process: "subprocess.Popen[bytes]") -> bool:
    """Wait until it has created the bucket, or has ended."""
    store = S3Store(
        BUCKET,
        endpoint=server.address,
        access_key_id=server.key,
        secret_access_key=server.secret,
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            obstore.put(store, "_probe", b"")
            obstore.delete(store, "_probe")
        except BaseError:
            time.sleep(0.1)
        else:
            return process.poll() is None
    return False
