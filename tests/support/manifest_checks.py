"""What must be so in manifests, as far as it can be judged without a cluster: each check yields what is wrong, in words."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import kubernetes_validate
import pytest
import typer
from typer.core import TyperGroup

from strandline.cli import main
from strandline.core.errors import LakeError
from strandline.engine.runtime.settings import settings
from strandline.engine.service.background_stream import ENDING
from tests.support.manifests import Manifest, Pod, environment, gib, named, pods, selects

RELEASES = ("1.31", "1.37")
"""The oldest and the newest release of Kubernetes that the manifests are for."""

BESIDE = 1.5
"""GiB that a program takes beside its heap; infra/docs/kubernetes.md has what was measured."""

BY_PERSON = {"webserver"}
"""What no pod of ours asks: a person comes by `kubectl port-forward`."""

SPARKS = {"stream": 1, "alerts": 1, "code": 2}
"""How many JVMs a container may run at once; Dagster's configuration allows two runs."""

DRIVER = "strandline/driver"
"""The label of pods that ask the cluster for executors."""

SECRET = re.compile(r"KEY|PASSWORD|POSTGRES$|WEBHOOK|OPTIONS|TOKEN|SECRET")

VALUES = {
    "strandline-store/access-key": "key",
    "strandline-store/secret-key": "secret",
    "strandline-kafka/options": '{"security.protocol": "SASL_SSL"}',
    "strandline-webhook/url": "http://127.0.0.1:9/hook",
    "strandline-postgres/url": "postgresql://dagster:word@strandline-postgres:5432/dagster",
    "strandline-postgres/password": "word",
}

Check: TypeAlias = Callable[[Sequence[Manifest]], Iterator[str]]


def schema(manifests: Sequence[Manifest]) -> Iterator[str]:
    """A field that a release of Kubernetes does not know would be refused, or worse, ignored."""
    for each in manifests:
        for release in RELEASES:
            try:
                kubernetes_validate.validate(each, release, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{each['kind']} {each['metadata']['name']}, {release}: {error.message}"


def confinement(manifests: Sequence[Manifest]) -> Iterator[str]:
    """What the standard `restricted` of Kubernetes asks for, and a root file system that is not written to."""
    for pod in pods(manifests):
        whole = pod.spec.get("securityContext", {})
        wrong = {
            "may be root": not whole.get("runAsNonRoot") or not whole.get("runAsUser"),
            "any system call": whole.get("seccompProfile") != {"type": "RuntimeDefault"},
            "a token of the cluster": pod.spec.get("automountServiceAccountToken")
            is not (pod.labels.get(DRIVER) == "yes"),
            "variables for services": pod.spec.get("enableServiceLinks") is not False,
            "the node's own": any(name.startswith("host") for name in pod.spec),
            "a path of the node": any("hostPath" in each for each in pod.spec.get("volumes", [])),
        }
        yield from (f"{pod.name}: {what}" for what, is_so in wrong.items() if is_so)
        for container in pod.containers:
            its = container.get("securityContext", {})
            wrong = {
                "may become root": its.get("allowPrivilegeEscalation") is not False,
                "capabilities": its.get("capabilities") != {"drop": ["ALL"]},
                "writes to the image": its.get("readOnlyRootFilesystem") is not True,
                "other than its pod": bool({"runAsUser", "runAsNonRoot", "privileged"} & set(its)),
            }
            yield from (f"{pod.name}, {container['name']}: {w}" for w, so in wrong.items() if so)


def images(manifests: Sequence[Manifest]) -> Iterator[str]:
    """A tag that moves runs two versions at once; a registry's address belongs to a cluster."""
    for pod in pods(manifests):
        for container in pod.containers:
            name, _, tag = container["image"].rpartition(":")
            if not re.fullmatch(r"v?\d+(\.\d+)+([-.]\w+)*", tag) or not name:
                yield f"{pod.name}: the tag of {container['image']}"
            if "/" in name and re.search(r"[.:]|^localhost$", name.partition("/")[0]):
                yield f"{pod.name}: a registry in {container['image']}"


def secrets(manifests: Sequence[Manifest]) -> Iterator[str]:
    """A value in a manifest is in the history of a repository for good; by reference only."""
    yield from (f"a secret {name}" for name in named(manifests, "Secret"))
    for name, each in named(manifests, "ConfigMap").items():
        yield from (f"{key} in {name}" for key in each["data"] if SECRET.search(key))
    for pod in pods(manifests):
        for container in pod.containers:
            for each in container.get("env", []):
                if SECRET.search(each["name"]) and "value" in each:
                    yield f"{each['name']} in {pod.name}"


def references(manifests: Sequence[Manifest]) -> Iterator[str]:
    """What a pod names must be there: its account, maps and volumes."""
    accounts, maps = named(manifests, "ServiceAccount"), named(manifests, "ConfigMap")
    for pod in pods(manifests):
        if pod.spec.get("serviceAccountName") not in accounts:
            yield f"{pod.name}: no account {pod.spec.get('serviceAccountName')}"
        for container in pod.containers:
            asked = [each["configMapRef"]["name"] for each in container.get("envFrom", [])]
            yield from (f"{pod.name}: no map {name}" for name in asked if name not in maps)
            mounted = {each["name"] for each in container.get("volumeMounts", [])}
            yield from (f"{pod.name}: no volume {name}" for name in mounted - _volumes(pod))


def _volumes(pod: Pod) -> set[str]:
    claims = pod.owner["spec"].get("volumeClaimTemplates", [])
    own = {each["name"] for each in pod.spec.get("volumes", [])}
    return own | {each["metadata"]["name"] for each in claims}


def selected(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Behind a service there are pods with its port; behind a budget there are more pods than must stay."""
    for name, service in named(manifests, "Service").items():
        by = {"matchLabels": service["spec"]["selector"]}
        behind = [
            each.main.get("ports", []) for each in pods(manifests) if selects(by, each.labels)
        ]
        ports = {port["name"] for each in behind for port in each}
        if not {port["targetPort"] for port in service["spec"]["ports"]} <= ports:
            yield f"service {name}: no pod has its port"
    for name, budget in named(manifests, "PodDisruptionBudget").items():
        by = budget["spec"]["selector"]
        owners = [each.owner["spec"] for each in pods(manifests) if selects(by, each.labels)]
        if sum(each["replicas"] for each in owners) <= budget["spec"]["minAvailable"]:
            yield f"budget {name}: its node can never be drained"


def hosts(manifests: Sequence[Manifest]) -> Iterator[str]:
    """A program finds another one by the name of a service, at a port of it."""
    services = named(manifests, "Service")
    for pod in pods(manifests):
        words = pod.main.get("args", [])
        for flag, word in pairwise(words):
            if flag == "--grpc-host":
                port = int(words[words.index("--grpc-port") + 1])
                found = services.get(word, {"spec": {"ports": []}})["spec"]["ports"]
                if port not in {each["port"] for each in found}:
                    yield f"{pod.name}: no service {word} at {port}"
            if flag in {"-p", "--port"} and int(word) not in {
                each["containerPort"] for each in pod.main.get("ports", [])
            }:
                yield f"{pod.name}: listens at {word}, and names no such port"


def networks(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Each pod is closed both ways; each port that is served is opened to pods that exist; each opened port is served."""
    policies = [each["spec"] for each in named(manifests, "NetworkPolicy").values()]
    all_pods = pods(manifests)
    for pod in all_pods:
        ours = [each for each in policies if selects(each["podSelector"], pod.labels)]
        for way in ("Ingress", "Egress"):
            if not any(way in each["policyTypes"] and way.lower() not in each for each in ours):
                yield f"{pod.name}: {way} is open"
        opened = [rule for each in ours for rule in each.get("ingress", [])]
        to = {port["port"] for rule in opened for port in rule.get("ports", [])}
        served = {port["containerPort"] for port in pod.main.get("ports", [])}
        if to != served and pod.labels["app.kubernetes.io/component"] not in BY_PERSON:
            yield f"{pod.name}: serves {sorted(served)}, and {sorted(to)} is open"
        # One with a selector of namespaces is of others.
        given = [each for rule in opened for each in rule["from"]]
        sources = [each["podSelector"] for each in given if "namespaceSelector" not in each]
        for source in sources:
            if not any(selects(source, other.labels) for other in all_pods):
                yield f"{pod.name}: opened to no pod"
    for pod in all_pods:
        out = [
            r
            for each in policies
            if selects(each["podSelector"], pod.labels)
            for r in each.get("egress", [])
        ]
        to = {port["port"] for rule in out for port in rule.get("ports", [])}
        wanted = {53, *_asked(pod.main), *([6443] if pod.labels.get(DRIVER) == "yes" else [])}
        if to != wanted:
            yield f"{pod.name}: may ask {sorted(to)}, and needs {sorted(wanted)}"


def _asked(container: Manifest) -> Iterator[int]:
    """Yield the ports that a container needs outside."""
    names = {each["name"] for each in container.get("env", [])}
    if "STRANDLINE_POSTGRES" in names:
        yield 5432
    if "AWS_ACCESS_KEY_ID" in names:
        yield from (443, 9092, 80)
    if "--grpc-host" in container.get("args", []):
        yield 4000


def memory(manifests: Sequence[Manifest]) -> Iterator[str]:
    """A container whose heap does not fit is killed by its node in the middle of a batch."""
    for pod in pods(manifests):
        for container in pod.containers:
            asked, most = (
                container["resources"][name]["memory"] for name in ("requests", "limits")
            )
            if gib(asked) > gib(most):
                yield f"{pod.name}: asks for more memory than it may take"
        if at_once := SPARKS.get(pod.main["name"]):
            heap = gib(environment(pod.main, manifests, VALUES)["STRANDLINE_MEMORY"])
            if at_once * (heap + BESIDE) > gib(pod.main["resources"]["limits"]["memory"]):
                yield f"{pod.name}: its heap does not fit"


def life(manifests: Sequence[Manifest]) -> Iterator[str]:
    """What hangs is seen; what writes tables is there once; what is asked to end has the time for it."""
    for pod in pods(manifests):
        probes = {"startupProbe", "livenessProbe"} - set(pod.main)
        yield from (f"{pod.name}: no {probe}" for probe in probes)
        if "ports" in pod.main and "readinessProbe" not in pod.main:
            yield f"{pod.name}: is asked before it can answer"
        is_writer = pod.labels.get("strandline/lake") == "yes" or pod.main["name"] == "daemon"
        its = pod.owner["spec"]
        of = [word.rpartition("/")[2] for word in pod.main.get("args", ()) if "$(SHARE)/" in word]
        if of and pod.owner["kind"] == "StatefulSet":  # each pod writes tables of its own
            if of != [str(its["replicas"])] or its["ordinals"] != {"start": 1}:
                yield f"{pod.name}: its pods are not the shares of its tables"
        elif is_writer and (its["replicas"] != 1 or its["strategy"] != {"type": "Recreate"}):
            yield f"{pod.name}: two at once"
        is_probed = (
            pod.main.get("livenessProbe", {}).get("exec", {}).get("command", [""])[0]
            == "strandline"
        )
        if is_probed and pod.spec["terminationGracePeriodSeconds"] <= ENDING:
            yield f"{pod.name}: is killed before its batch has ended"


def commands(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Each command can be typed: the program is there, the verb is one, its options are known."""
    if not main.app.registered_commands:
        main._load([])
    verbs = typer.main.get_command(main.app)
    assert isinstance(verbs, TyperGroup)
    for pod in pods(manifests):
        if pod.main["image"].startswith("postgres"):
            continue
        for words in _typed(pod.containers):
            program, *rest = words
            if not Path(sys.executable).with_name(program).exists():
                yield f"{pod.name}: no program {program}"
            if program == "strandline":
                try:
                    verbs.commands[rest[0]].make_context(rest[0], rest[1:])
                except (KeyError, typer._click.exceptions.ClickException) as error:
                    yield f"{pod.name}: {' '.join(words)}: {error}"


def _typed(containers: Sequence[Manifest]) -> Iterator[list[str]]:
    for container in containers:
        if "command" in container:  # then tini would not be there
            yield ["command:", *container["command"]]
        yield container["args"]
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probed := container.get(name, {}).get("exec"):
                yield probed["command"]


def variables(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Each variable is a setting, with a value that it takes; a program refuses a STRANDLINE_ name that is none."""
    with pytest.MonkeyPatch.context() as patch:
        for pod in pods(manifests):
            for name, value in environment(pod.main, manifests, VALUES).items():
                patch.setenv(name, value)
            try:
                settings()
            except LakeError as error:
                yield f"{pod.name}: {error}"
            patch.undo()


CHECKS: tuple[Check, ...] = (
    schema,
    confinement,
    images,
    secrets,
    references,
    selected,
    hosts,
    networks,
    memory,
    life,
    commands,
    variables,
)
