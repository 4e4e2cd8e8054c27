"""A real S3 server on loopback, for one run of the tests: SeaweedFS, out of a wheel.

It honours ``If-None-Match`` and ``If-Match`` (measured: of 50 writers at once one wins, 10 of 10 rounds), which not every
server does. Its data, its log and its settings are in one folder; it is ended by its process id.
"""

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError
from obstore.store import S3Store

from strandline.engine.runtime.processes import bind
from strandline_infra.programs import HOST

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
        is_open: Whether it takes requests without a signature too.
    """

    address: str
    key: str
    secret: str
    is_open: bool = False

    @property
    def environment(self) -> dict[str, str]:
        """Return what a program needs to reach it, by the names that all AWS tools know."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL": self.address,
            "AWS_REGION": "us-east-1",
        }


class Running:
    """A server that can be killed, and started again over what it left."""

    def __init__(self, folder: Path, *, is_open: bool = False) -> None:
        """Start one that answers; between the choice of a port and its use another program may take it."""
        key, secret = f"key{secrets.token_hex(4)}", secrets.token_hex(16)
        for attempt in range(TRIES):
            self._ports = {name: bind(0) for name in PORTS}
            self._folder = folder / str(attempt)
            self.server = S3Server(
                address=f"http://{HOST}:{self._ports['s3']}",
                key=key,
                secret=secret,
                is_open=is_open,
            )
            if self.up():
                return
            self.kill()
        raise RuntimeError(f"no S3 server started; the logs are in {folder}")

    def up(self) -> bool:
        """Start it, and return whether it answers."""
        self._process = _start(self._folder, self._ports, self.server)
        return _answers(self.server, self._process)

    def refuse(self) -> bool:
        """Kill it and start it with other keys, as when a token has expired; return whether it refuses ours."""
        self.kill()
        other = replace(self.server, key="another-key", is_open=False)
        self._process = _start(self._folder, self._ports, other)
        return _answers(self.server, self._process, refuses=True)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.wait()


@contextmanager
def running(folder: Path, *, is_open: bool = False) -> Iterator[Running]:
    """Run a server with an empty bucket for the length of the block."""
    found = Running(folder, is_open=is_open)
    try:
        yield found
    finally:
        found.kill()


def _start(folder: Path, ports: Mapping[str, int], server: S3Server) -> "subprocess.Popen[bytes]":
    """Start the program over a folder, also one that a former server left."""
    data, config = folder / "data", folder / "s3.json"
    data.mkdir(parents=True, exist_ok=True)
    owner = {"accessKey": server.key, "secretKey": server.secret}
    allowed = {"name": "tests", "credentials": [owner], "actions": ["Admin"]}
    others = [{"name": "anonymous", "actions": ["Admin"]}] if server.is_open else []
    config.write_text(json.dumps({"identities": [allowed, *others]}))
    command = [
        *(PROGRAM, "mini", f"-dir={data}", f"-ip={HOST}", f"-ip.bind={HOST}", "-webdav=false"),
        *("-admin.ui=false", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
        f"-s3.config={config}",
        *(f"-{name}.port={port}" for name, port in ports.items()),
        *(f"-{name}.port.grpc={bind(0)}" for name in PORTS),
    ]
    # Keys of the environment are taken as well, and a test that has ours there would never see them refused.
    environment = {name: value for name, value in os.environ.items() if "AWS_" not in name}
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(
            [str(each) for each in command], stdout=log, stderr=log, cwd=folder, env=environment
        )


def _answers(
    server: S3Server, process: "subprocess.Popen[bytes]", *, refuses: bool = False
) -> bool:
    """Wait until it has created the bucket, refuses these keys if it is to, or has ended."""
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
        except PermissionDeniedError:
            if refuses:
                return True
            time.sleep(0.1)
        except BaseError:
            time.sleep(0.1)
        else:
            if not refuses:
                return process.poll() is None
            time.sleep(0.1)  # it takes our keys until it has read its own
    return False
