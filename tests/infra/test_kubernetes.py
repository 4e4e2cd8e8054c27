"""The manifests, as far as they can be judged without a cluster: by the schemas of Kubernetes, and by what must fit together.

That a check can be red is seen from mistakes that are planted.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.support.manifest_checks import (
    CHECKS,
    VALUES,
    Check,
    commands,
    confinement,
    hosts,
    images,
    life,
    memory,
    networks,
    references,
    schema,
    secrets,
    selected,
    variables,
)
from tests.support.manifests import (
    FOLDER,
    ROOT,
    SHARDS,
    Manifest,
    named,
    pods,
    rendered,
    secrets_of,
)


@pytest.fixture(scope="module", name="manifests")
def _manifests() -> list[Manifest]:
    """Return what the example sends."""
    return rendered()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_manifests_are_in_order(check: Check, manifests: list[Manifest]) -> None:
    assert list(check(manifests)) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_manifests_with_shares_of_the_tables_are_in_order(check: Check) -> None:
    assert list(check(rendered(SHARDS))) == []


@pytest.mark.parametrize(
    "plant",
    [{"replicas": 4}, {"ordinals": {"start": 0}}],
    ids=["a pod more", "numbers from 0"],
)
def test_pods_that_are_not_the_shares_of_the_tables_are_seen(plant: Manifest) -> None:
    """A share would have no pod, or a pod no share."""
    them = rendered(SHARDS)
    named(them, "StatefulSet")["strandline-stream"]["spec"].update(plant)

    assert [*life(them)] == ["strandline-stream: its pods are not the shares of its tables"]


def test_the_base_alone_names_no_namespace_and_the_overlay_one() -> None:
    """One cluster may have several lakes."""
    assert {each["metadata"].get("namespace") for each in rendered(FOLDER / "base")} == {None}
    assert {each["metadata"]["namespace"] for each in rendered()} == {"strandline"}


def test_a_changed_setting_restarts_what_reads_it(tmp_path: Path) -> None:
    """The name of the map changes with its content, and with it the template of each pod."""
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    base = Path(*[".."] * len(overlay.resolve().parts[1:])) / FOLDER.relative_to("/") / "base"
    change = (
        f"resources: [{base}]\n"
        "configMapGenerator: [{name: strandline, behavior: merge, literals: [STRANDLINE_MEMORY=3g]}]\n"
    )
    (overlay / "kustomization.yaml").write_text(change)

    before, after = rendered(FOLDER / "base"), rendered(overlay)
    changed = [
        old.name for old, new in zip(pods(before), pods(after), strict=True) if old.spec != new.spec
    ]
    assert sorted(changed) == [
        f"strandline-{name}" for name in ("alerts", "code", "metrics", "stream")
    ]


def test_each_secret_is_in_the_manual(manifests: list[Manifest]) -> None:
    """A person makes them by hand, from the page."""
    page = (ROOT / "infra" / "docs" / "kubernetes.md").read_text()
    lines = re.findall(r"create secret generic (\S+)((?: *\\?\n? *--from-literal=\S+)+)", page)
    made = {
        f"{name}/{key}" for name, keys in lines for key in re.findall(r"literal=([\w-]+)=", keys)
    }

    assert set(secrets_of(manifests)) == made == set(VALUES)


def test_the_dockerfile_is_in_order() -> None:
    """By hadolint, which also reads the shell in it."""
    linter, file = (
        Path(sys.executable).with_name("hadolint"),
        ROOT / "infra" / "image" / "Dockerfile",
    )
    judged = subprocess.run([linter, file], capture_output=True, text=True, check=False, timeout=60)

    assert judged.stdout == ""
    assert judged.returncode == 0


def test_what_the_build_of_the_package_asks_for_is_not_left_out_of_the_image() -> None:
    """Folders that a wheel carries were left out, and no image could be built for two days."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    ignored = (ROOT / "infra" / "image" / "Dockerfile.dockerignore").read_text().splitlines()
    taken = {line[1:] for line in ignored if line.startswith("!")}
    left_out = [line for line in ignored if line and line[0] not in "#*!"]
    asked = [*wheel["packages"], *wheel["force-include"], *project["project"]["license-files"]]

    assert {each.partition("/")[0] for each in asked} <= taken
    assert not [each for each in asked for left in left_out if each.startswith(left)]


# ---- the checks can be red ------------------------------------------------------------------------------


def _stream(manifests: Sequence[Manifest]) -> Any:  # noqa: ANN401  # a tree of YAML
    """Return the specification of the stream's pod."""
    return named(manifests, "Deployment")["strandline-stream"]["spec"]["template"]["spec"]


def _main(manifests: Sequence[Manifest]) -> Any:  # noqa: ANN401  # as above
    return _stream(manifests)["containers"][0]


def _policy(manifests: Sequence[Manifest], name: str) -> Any:  # noqa: ANN401  # as above
    return named(manifests, "NetworkPolicy")[f"strandline-{name}"]["spec"]


MISTAKES: list[tuple[Check, Callable[[list[Manifest]], object]]] = [
    (schema, lambda them: _stream(them).update(terminationGracePeriod=150)),
    (schema, lambda them: _main(them)["livenessProbe"].update(periodSeconds="30s")),
    (confinement, lambda them: _stream(them)["securityContext"].update(runAsUser=0)),
    (confinement, lambda them: _main(them)["securityContext"].pop("readOnlyRootFilesystem")),
    (confinement, lambda them: _main(them)["securityContext"]["capabilities"].update(add=["NET_RAW"])),
    (confinement, lambda them: _stream(them).pop("enableServiceLinks")),
    (confinement, lambda them: _stream(them)["volumes"].append({"name": "x", "hostPath": {"path": "/"}})),
    (images, lambda them: _main(them).update(image="example/strandline:latest")),
    (images, lambda them: _main(them).update(image="example/strandline")),
    (images, lambda them: _main(them).update(image="registry.example.com/strandline:0.1.0")),
    (secrets, lambda them: them.append({"kind": "Secret", "metadata": {"name": "x"}, "data": {}})),
    (secrets, lambda them: _main(them)["env"].append({"name": "AWS_SECRET_ACCESS_KEY", "value": "x"})),
    (references, lambda them: _stream(them).update(serviceAccountName="another")),
    (references, lambda them: _main(them)["envFrom"][0]["configMapRef"].update(name="strandline")),
    (references, lambda them: _stream(them)["volumes"].pop()),
    (selected, lambda them: named(them, "Service")["strandline-code"]["spec"]["ports"][0].update(targetPort="http")),
    (selected, lambda them: named(them, "Deployment")["strandline-webserver"]["spec"].update(replicas=1)),
    (hosts, lambda them: named(them, "Service")["strandline-code"]["spec"]["ports"][0].update(port=4001)),
    (networks, lambda them: _policy(them, "deny").update(policyTypes=["Ingress"])),
    (networks, lambda them: _policy(them, "deny")["podSelector"]["matchLabels"].update(x="y")),
    (networks, lambda them: _policy(them, "lake")["egress"][0]["ports"].pop()),
    (networks, lambda them: _policy(them, "history")["egress"].append({"ports": [{"port": 22}]})),
    (networks, lambda them: _policy(them, "code")["ingress"][0]["ports"][0].update(port=4001)),
    (networks, lambda them: _policy(them, "postgres")["ingress"][0]["from"][0]["podSelector"].update(matchLabels={"x": "y"})),
    (memory, lambda them: _main(them)["resources"]["limits"].update(memory="3Gi")),
    (memory, lambda them: _main(them)["resources"]["requests"].update(memory="5Gi")),
    (life, lambda them: _main(them).pop("livenessProbe")),
    (life, lambda them: named(them, "Deployment")["strandline-stream"]["spec"].update(replicas=2)),
    (life, lambda them: _stream(them).update(terminationGracePeriodSeconds=30)),
    (commands, lambda them: _main(them)["args"].append("--quickly")),
    (commands, lambda them: _main(them)["livenessProbe"]["exec"].update(command=["strandline", "probe", "x"])),
    (commands, lambda them: _main(them).update(command=["strandline"])),
    (variables, lambda them: _main(them)["env"].append({"name": "STRANDLINE_CORE", "value": "2"})),
    (variables, lambda them: _main(them)["env"].append({"name": "STRANDLINE_MEMORY", "value": "2Gi"})),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "plant"),
    MISTAKES,
    ids=[f"{check.__name__}{n}" for n, (check, _) in enumerate(MISTAKES)],
)
def test_a_mistake_that_is_planted_is_seen(
    check: Check, plant: Callable[[list[Manifest]], object], manifests: list[Manifest]
) -> None:
    spoiled = deepcopy(manifests)
    plant(spoiled)

    assert list(check(spoiled)) != []


def test_no_check_lacks_a_mistake() -> None:
    assert {check for check, _ in MISTAKES} == set(CHECKS)
