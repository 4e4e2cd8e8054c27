"""The image is built, and each container of the manifests is run from it as a cluster would: not as root, its root read only.

Real are the build, the commands, the variables, the probes, SIGTERM, the store, the broker and PostgreSQL. Not real are the
network, where everything is on loopback, and Debian's own Python in place of the image of Python.
"""

import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from strandline.engine.kafka import broker as local_broker
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from strandline.engine.runtime.processes import bind
from strandline_infra.programs import HOST
from tests.cli.typed import succeeded
from tests.support.image import Image, built, compressed, first, inside, python, running, sizes
from tests.support.manifest_checks import VALUES
from tests.support.manifests import ROOT, Manifest, Pod, environment, pods, rendered
from tests.support.postgres import served
from tests.support.s3_server import S3Server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.prove(alone="ten minutes, of which the build takes most"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can make namespaces here"),
    pytest.mark.skipif(
        shutil.which("debootstrap") is None,
        reason="nothing to build on here (Debian: apt install debootstrap)",
    ),
]

OURS = 10001
USUAL_GRACE = 30
"""What a cluster gives where a manifest does not say."""
FOREIGN = {"postgres"}
"""What is not of our image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A container that runs.

    Args:
        pod: Its pod.
        process: What started it.
        env: Its variables.
        log: Its output.
    """

    pod: Pod
    process: "subprocess.Popen[bytes]"
    env: Mapping[str, str]
    log: Path


@pytest.fixture(scope="module", name="image")
def _image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Return the image; building it also shows that each of its instructions works."""
    folder = tmp_path_factory.mktemp("image")
    return built(folder, python(folder / "python"))


@pytest.fixture(name="world")
def _world(s3: S3Server, bucket: Place, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the variables of what a cluster has beside our pods: a store, brokers with topics, a database."""
    disk = Lake(Place.of(tmp_path / "disk"))
    with served() as postgres:
        postgres.give_history()
        broker = local_broker.up(disk)
        env = {"STRANDLINE_KAFKA": broker.address, **s3.environment}
        succeeded("up", "--lake", disk.root)
        succeeded(
            "produce",
            "--make-topics",
            "--events",
            3_000,
            "--seed",
            1,
            "--until",
            "2026-11-01",
            env=env,
        )
        try:
            history = postgres.url("history", user="dagster")
            yield {**env, "STRANDLINE_LAKE": str(bucket), "STRANDLINE_POSTGRES": history}
        finally:
            local_broker.down(disk)


def test_each_container_starts_answers_its_probes_and_ends_in_time(
    image: Image, world: Mapping[str, str], tmp_path: Path
) -> None:
    """With the words, variables and volumes of its manifest; one after the other, but Dagster's three together."""
    manifests = rendered()
    ours = [each for each in pods(manifests) if each.main["name"] not in FOREIGN]
    ports = {str(port): str(bind(0)) for port in (3000, 4000, 9464)}
    before = _changed_at(image.root)
    console = [each for each in ours if "strandline/history" in each.labels]
    for together in ([each] for each in ours if each not in console):
        _live(image, together, manifests, world, ports, tmp_path)
    # The code first: both others ask it.
    console.sort(key=lambda each: each.main["name"] != "code")
    _live(image, console, manifests, world, ports, tmp_path)

    assert _changed_at(image.root) == before


def test_the_image_is_as_large_as_its_page_says(image: Image) -> None:
    """By the files of all layers; a tenth more or less is the page's to say anew. What a registry keeps is printed."""
    found, fetched = sizes(image.root), compressed(image.root)
    parts = {name: f"{each / 1e6:,.0f} MB" for name, each in found.items()}
    print(f"{parts}, {fetched / 1e6:,.0f} MB compressed")  # noqa: T201  # what a proof shows
    page = (ROOT / "infra" / "docs" / "containers.md").read_text()
    (said,) = re.findall(r"\*\*(\d\.\d+) GB\*\*", page)

    assert sum(found.values()) == pytest.approx(float(said) * 1e9, rel=0.1)


def _live(  # noqa: PLR0913, PLR0917  # what a cluster has
    image: Image,
    together: list[Pod],
    manifests: list[Manifest],
    world: Mapping[str, str],
    ports: Mapping[str, str],
    folder: Path,
) -> None:
    """Start some pods, see that they become healthy, and end them."""
    with ExitStack() as stack:
        started = []
        for pod in together:
            env = _given(pod, manifests, world)
            begun = stack.enter_context(_started(image, pod, env, ports, folder))
            _await(image, begun, ports)
            started.append(begun)
        for each in reversed(started):
            for probe in ("livenessProbe", "readinessProbe"):
                if probe in each.pod.main:
                    assert _is_well(image, each, each.pod.main[probe], ports), each.pod.name
            _end(image, each)


def _given(pod: Pod, manifests: list[Manifest], world: Mapping[str, str]) -> dict[str, str]:
    """Return a container's variables, with the addresses of this machine in place of those of a cluster."""
    wanted = {"strandline-postgres/url": world["STRANDLINE_POSTGRES"]}
    wanted["strandline-store/access-key"] = world["AWS_ACCESS_KEY_ID"]
    wanted["strandline-store/secret-key"] = world["AWS_SECRET_ACCESS_KEY"]
    env = environment(pod.main, manifests, wanted)
    assert wanted.keys() <= VALUES.keys()
    here = {key: world[key] for key in ("STRANDLINE_LAKE", "STRANDLINE_KAFKA") if key in env}
    store = {key: world[key] for key in ("AWS_ENDPOINT_URL", "AWS_REGION") if "AWS_REGION" in env}
    return {**env, **here, **store}


@contextmanager
def _started(
    image: Image, pod: Pod, env: Mapping[str, str], ports: Mapping[str, str], folder: Path
) -> Iterator[Started]:
    volumes = {each["name"]: folder / pod.name / each["name"] for each in pod.spec["volumes"]}
    for each in volumes.values():
        each.mkdir(parents=True)
        os.chown(each, OURS, OURS)
    log = folder / f"{pod.name}.log"
    with ExitStack() as stack:
        for container in pod.containers:
            mounts = {
                each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]
            }
            swapped = {"0.0.0.0": HOST, "strandline-code": HOST, **ports}  # noqa: S104  # what is swapped
            words = [swapped.get(word, word) for word in container["args"]]
            given = env if container is pod.main else {}
            how = {"env": given, "mounts": mounts, "name": pod.name, "log": log}
            process = stack.enter_context(running(image, words, **how))  # type: ignore[arg-type]  # as its parameters are
            if container is not pod.main:
                assert process.wait(60) == 0, log.read_text()
        yield Started(pod=pod, process=process, env=env, log=log)


def _await(image: Image, started: Started, ports: Mapping[str, str]) -> None:
    """Ask the start-up probe as often as a cluster would before it gives up."""
    probe = started.pod.main["startupProbe"]
    began = time.monotonic()
    while not _is_well(image, started, probe, ports):
        assert started.process.poll() is None, started.log.read_text()[-3000:]
        waited = time.monotonic() - began
        assert waited < probe["periodSeconds"] * probe["failureThreshold"], started.log.read_text()[
            -3000:
        ]
        time.sleep(1)
    print(f"{started.pod.name}: well after {time.monotonic() - began:.0f} s")  # noqa: T201  # what a proof shows


def _is_well(
    image: Image, started: Started, probe: dict[str, Any], ports: Mapping[str, str]
) -> bool:
    match probe:
        case {"exec": {"command": words}}:
            patience = probe["timeoutSeconds"]
            try:
                answer = inside(image, started.process, words, started.env, patience)
            except (subprocess.TimeoutExpired, IndexError):  # no process is there yet
                return False
            return answer.returncode == 0
        case {"httpGet": {"path": path, "port": name}}:
            (port,) = (p["containerPort"] for p in started.pod.main["ports"] if p["name"] == name)
            try:
                with urllib.request.urlopen(f"http://{HOST}:{ports[str(port)]}{path}", timeout=10):
                    return True
            except OSError:
                return False
        case {"grpc": {"service": service}}:
            with grpc.insecure_channel(f"{HOST}:{ports['4000']}") as channel:
                try:
                    asked = HealthCheckRequest(service=service)
                    answer = HealthStub(channel).Check(asked, timeout=10)
                except grpc.RpcError:
                    return False
                return bool(answer.status == HealthCheckResponse.SERVING)
        case _:
            raise NotImplementedError(probe)


def _end(image: Image, started: Started) -> None:
    """Send SIGTERM to its first process, as a cluster does, and see that it is gone in the time that its manifest gives."""
    who = inside(image, started.process, ["id", "-u"], started.env).stdout.strip()
    written = inside(image, started.process, ["touch", "/opt/strandline/x"], started.env)
    assert (who, written.returncode) == (str(OURS), 1)
    assert "Read-only file system" in written.stderr
    grace = started.pod.spec.get("terminationGracePeriodSeconds", USUAL_GRACE)
    began = time.monotonic()
    os.kill(first(started.process), signal.SIGTERM)
    code = started.process.wait(grace)
    print(f"{started.pod.name}: ended after {time.monotonic() - began:.1f} s with {code}")  # noqa: T201  # what a proof shows
    if started.pod.main["args"][0] == "strandline":
        assert code == 0, started.log.read_text()[-3000:]


def _changed_at(root: Path) -> dict[str, float]:
    """Return when each folder of the project was changed last: a file that was written there changes it."""
    return {str(each): each.stat().st_mtime for each in (root / "opt").rglob("*") if each.is_dir()}
