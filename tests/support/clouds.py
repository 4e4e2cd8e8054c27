"""Servers on loopback of the three kinds of object store, as a test sees them: S3's, Google's and Azure's.

Of fifty writers at once that create or replace one object, one wins on each of them (tests/engine/lake/test_object_files.py), which
not every server does: the wheel of fake-gcs-server loses such races, so the server is built from its Go module, once a machine,
with a small door for writes of the XML interface (gcs/main.go). Azurite is npm's; it has Azure's blob interface and no dfs.

What was built or fetched lies in the user's cache, outside of the clone; a machine without Go or Node skips the tests and says so.
"""

import base64
import fcntl
import hashlib
import hmac
import os
import secrets
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path

import pytest

from strandline.engine.runtime.processes import bind
from strandline.engine.runtime.settings import ABFSS, GS, S3A
from strandline_infra.programs import HOST
from tests.support.s3_server import BUCKET, S3Server

GCS_MODULE = "github.com/fsouza/fake-gcs-server@v1.56.1"
AZURITE = "azurite@3.37.0"
ACCOUNT = "strandline"
CONTAINER = f"{BUCKET}@{ACCOUNT}.dfs.core.windows.net"
REGION = "AWS_REGION"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strandline-tests"
PATIENCE = 30.0
BUILDING = 500
"""Seconds that a step of a first build may take, less than a test may; the compiler keeps what it has, so the next run goes on there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A running server.

    Args:
        scheme: That of its places.
        root: Its bucket, or its container with the account.
        address: Its address, without a path.
        variable: The variable by which its address is named.
        path: What the address of a client ends with.
        keys: The other variables that a program needs to reach it.
        process: Its process; None where another fixture ends it.
    """

    scheme: str
    root: str
    address: str
    variable: str
    path: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def environment(self) -> dict[str, str]:
        """Return what a program needs to reach it."""
        return self.through(self.address)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what no log, object or list of processes may have."""
        return tuple(value for name, value in self.keys.items() if name != REGION)

    def through(self, address: str) -> dict[str, str]:
        """Return the same for a program that asks a proxy instead of the server."""
        return {**self.keys, self.variable: f"{address}{self.path}"}


def cloud_of(server: "S3Server | Cloud") -> Cloud:
    """Return a server as one of them; S3's has a type of its own."""
    if isinstance(server, Cloud):
        return server
    variable = "AWS_ENDPOINT_URL"
    keys = {name: value for name, value in server.environment.items() if name != variable}
    return Cloud(scheme=S3A, root=BUCKET, address=server.address, variable=variable, keys=keys)


@contextmanager
def gcs(folder: Path) -> Iterator[Cloud]:
    """Run Google's server, which keeps its objects in memory, with an empty bucket."""
    program = _gcs_program()

    def made(port: int) -> Cloud:
        at = f"{HOST}:{port}"
        return Cloud(
            scheme=GS,
            root=BUCKET,
            address=f"http://{at}",
            variable="GOOGLE_BASE_URL",
            keys={"GOOGLE_BEARER_TOKEN": secrets.token_hex(16)},
            process=_started([str(program), "-address", at, "-bucket", BUCKET], folder, {}),
        )

    with _running(made, lambda found: _asked(f"{found.address}/_internal/healthcheck")) as found:
        yield found


@contextmanager
def azurite(folder: Path) -> Iterator[Cloud]:
    """Run Azure's server with an empty container."""
    program = _azurite_program()
    key = base64.b64encode(secrets.token_bytes(32)).decode()

    def made(port: int) -> Cloud:
        command = [
            *("node", str(program), "--blobHost", HOST, "--blobPort", str(port)),
            *("--location", str(folder), "--skipApiVersionCheck", "--disableTelemetry", "--silent"),
        ]
        return Cloud(
            scheme=ABFSS,
            root=CONTAINER,
            address=f"http://{HOST}:{port}",
            variable="AZURE_STORAGE_ENDPOINT",
            path=f"/{ACCOUNT}",
            keys={"AZURE_STORAGE_ACCOUNT_KEY": key},
            process=_started(command, folder, {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{key}"}),
        )

    with _running(made, lambda found: _make_container(found, key)) as found:
        yield found


@contextmanager
def _running(made: Callable[[int], Cloud], answers: Callable[[Cloud], bool]) -> Iterator[Cloud]:
    """Run a server that answers for the length of the block; another program may have taken the port meanwhile."""
    found = made(bind(0))
    process = found.process
    assert process is not None
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers(found):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no server of {found.scheme} at {found.address}")
            time.sleep(0.1)
        yield found
    finally:
        process.kill()
        process.wait()


def _started(
    command: Sequence[str], folder: Path, more: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **more}
        )


def _asked(url: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> bool:
    """Return whether an address answers well; one that answers otherwise is an error of the test."""
    request = urllib.request.Request(url, method=method, headers=dict(headers or {}))  # noqa: S310  # our own address
    try:
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310  # as above
            return True
    except urllib.error.HTTPError:
        raise
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _make_container(found: Cloud, key: str) -> bool:
    """Create the container by a request that is signed with the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "\n".join(f"{name}:{value}" for name, value in headers.items())
    # The account comes twice: it is part of the address where the address is no account's own.
    signed = f"PUT{12 * chr(10)}{named}\n/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    digest = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
    signature = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{found.address}/{ACCOUNT}/{BUCKET}?restype=container"
    return _asked(url, "PUT", {**headers, "Authorization": signature})


def _gcs_program() -> Path:
    """Return Google's server; it is built first where this machine has none of this source."""
    source = (Path(__file__).parent / "gcs" / "main.go").read_bytes()
    digest = hashlib.sha256(GCS_MODULE.encode() + source).hexdigest()[:12]

    def build(folder: Path) -> None:
        (folder / "main.go").write_bytes(source)
        # One compiler at a time, below all other work: it is half a thousand packages, of which a machine builds each once.
        environment = {
            **os.environ,
            "GOFLAGS": "-p=1 -mod=mod",
            "GOMAXPROCS": "1",
            "CGO_ENABLED": "0",
        }
        for words in (
            ("mod", "init", "strandline.test/gcs"),
            ("get", GCS_MODULE),
            ("build", "-ldflags=-s -w", "-o", "gcs-server", "."),
        ):
            _done(["nice", "-n", "19", "go", *words], folder, environment)

    return _cached(f"gcs-{digest}", "go", build) / "gcs-server"


def _azurite_program() -> Path:
    def fetch(folder: Path) -> None:
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", AZURITE]
        _done(["nice", "-n", "19", *command], folder, os.environ)

    folder = _cached(AZURITE.replace("@", "-"), "npm", fetch)
    return folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def _cached(name: str, tool: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; it is made first where there is none, and never half."""
    folder = CACHE / name
    if folder.exists():
        return folder
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} here, with which the server of this store is made")
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may want it at once
        if not folder.exists():
            partial = CACHE / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(folder)
    return folder


def _done(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    try:
        subprocess.run(
            command, cwd=folder, env=environment, check=True, capture_output=True, timeout=BUILDING
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"the server of this store was not made in {BUILDING} s; run the test again")
    except subprocess.CalledProcessError as error:
        if b"dial tcp" in error.stderr or b"ENOTFOUND" in error.stderr:
            pytest.skip(f"{command[3]} cannot fetch the server of this store: no network")
        raise RuntimeError(error.stderr.decode()[-2000:]) from error
