"""The manifests of infra/kubernetes as a cluster would get them, and what a container of them is given."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "infra" / "kubernetes"
EXAMPLE = FOLDER / "overlays" / "example"
CLUSTER = FOLDER / "overlays" / "cluster"
SHARDS = FOLDER / "overlays" / "shards"
KUBECTL = Path(sys.executable).with_name("kubectl")

Manifest = dict[str, Any]

GIB = {"Ki": 2**-20, "Mi": 2**-10, "Gi": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a Deployment or a StatefulSet starts.

    Args:
        name: The owner's name.
        owner: The owner.
        labels: The pod's labels.
        spec: Its specification.
    """

    name: str
    owner: Manifest
    labels: Mapping[str, str]
    spec: Manifest

    @property
    def containers(self) -> list[Manifest]:
        """Return its containers, those first that run before the others."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def main(self) -> Manifest:
        """Return the container for which it is there."""
        only: Manifest = self.spec["containers"][0]
        return only


def rendered(folder: Path = EXAMPLE) -> list[Manifest]:
    """Return what `kubectl apply -k` would send."""
    done = subprocess.run(
        [KUBECTL, "kustomize", folder], capture_output=True, text=True, check=True, timeout=60
    )
    return list(yaml.safe_load_all(done.stdout))


def named(manifests: Sequence[Manifest], kind: str) -> dict[str, Manifest]:
    """Return the manifests of a kind by name."""
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] == kind}


def pods(manifests: Sequence[Manifest]) -> list[Pod]:
    """Return all pods that the manifests start."""
    return [
        Pod(
            name=each["metadata"]["name"],
            owner=each,
            labels=each["spec"]["template"]["metadata"]["labels"],
            spec=each["spec"]["template"]["spec"],
        )
        for each in manifests
        if "template" in each.get("spec", {})
    ]


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector, of a policy or of a service, selects a pod."""
    wanted = selector.get("matchLabels", {})
    sets = selector.get("matchExpressions", [])
    if any(each["operator"] != "In" for each in sets):
        raise NotImplementedError(sets)
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        labels.get(each["key"]) in each["values"] for each in sets
    )


def environment(
    container: Manifest, manifests: Sequence[Manifest], secrets: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that a container gets; ``secrets`` has values by ``name/key``, and an optional one may lack."""
    maps = named(manifests, "ConfigMap")
    found: dict[str, str] = {}
    for source in container.get("envFrom", []):
        found |= maps[source["configMapRef"]["name"]]["data"]
    for each in container.get("env", []):
        value = _value(each, container, secrets)
        if value is not None:
            found[each["name"]] = value
    return found


def _value(each: Manifest, container: Manifest, secrets: Mapping[str, str]) -> str | None:
    match each:
        case {"value": str(value)}:
            return value
        case {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}:
            return str(container["resources"]["limits"]["cpu"])
        case {"valueFrom": {"fieldRef": {"fieldPath": path}}}:
            return str(path)
        case {"valueFrom": {"secretKeyRef": reference}}:
            name = f"{reference['name']}/{reference['key']}"
            return secrets.get(name) if reference.get("optional") else secrets[name]
        case _:
            raise NotImplementedError(each)


def secrets_of(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Yield ``name/key`` of each secret that a container gets."""
    for pod in pods(manifests):
        for container in pod.containers:
            for each in container.get("env", []):
                reference = each.get("valueFrom", {}).get("secretKeyRef")
                if reference:
                    yield f"{reference['name']}/{reference['key']}"


def gib(quantity: str) -> float:
    """Return an amount of memory, of a resource or of a Java heap, in GiB."""
    number, unit = re.fullmatch(r"(\d+)(\w+)", quantity).groups()  # type: ignore[union-attr]  # else the manifest is wrong
    return int(number) * GIB[unit if unit in GIB else f"{unit.upper()}i"]
