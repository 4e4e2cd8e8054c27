"""The manifests with executors beside them: what Spark starts is judged like what kustomize renders."""

import re

import pytest
import yaml

from tests.support.manifest_checks import CHECKS, DRIVER, VALUES, Check, commands, life
from tests.support.manifests import CLUSTER, Manifest, environment, named, pods, rendered

SPARK = "spark-defaults.conf"


@pytest.fixture(scope="module", name="cluster")
def _cluster() -> list[Manifest]:
    """Return the example with executors beside it, and one executor as Spark starts it."""
    them = rendered(CLUSTER)
    given = named(them, "Deployment")["strandline-stream"]["spec"]["template"]["spec"]
    (settings,) = (each for each in named(them, "ConfigMap").values() if SPARK in each["data"])
    whole = yaml.safe_load(settings["data"]["executor.yaml"])
    template = {name: whole[name] for name in ("metadata", "spec")}
    (container,) = template["spec"]["containers"]
    container["image"] = given["containers"][0]["image"]
    container["args"] = ["executor"]
    container["resources"] = {
        each: {"memory": "4Gi", "cpu": "2"} for each in ("requests", "limits")
    }
    metadata = {"name": "strandline-executor", "namespace": "strandline"}
    selector = {"matchLabels": template["metadata"]["labels"]}
    spec = {"replicas": 1, "selector": selector, "template": template}
    return [
        *them,
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
    ]


@pytest.mark.parametrize(
    "check",
    [each for each in CHECKS if each not in {life, commands}],
    ids=lambda check: check.__name__,
)
def test_the_manifests_with_executors_are_in_order(check: Check, cluster: list[Manifest]) -> None:
    """Without those about programs that run always: Spark starts and ends executors."""
    assert list(check(cluster)) == []


def test_executors_have_the_image_of_their_driver_and_the_places_that_spark_names(
    cluster: list[Manifest],
) -> None:
    """Another Python or another Spark there fails in the middle of a batch."""
    for pod in pods(cluster):
        if pod.labels.get(DRIVER) != "yes":
            continue
        env = environment(pod.main, cluster, VALUES)
        (mounted,) = (
            each for each in pod.main["volumeMounts"] if each["mountPath"] == env["SPARK_CONF_DIR"]
        )
        (volume,) = (each for each in pod.spec["volumes"] if each["name"] == mounted["name"])
        lines = named(cluster, "ConfigMap")[volume["configMap"]["name"]]["data"][SPARK]
        asked = set(re.findall(r"\$\{env:(\w+)\}", lines))
        template = re.search(r"podTemplateFile +(\S+)", lines)

        assert env["SPARK_IMAGE"] == pod.main["image"]
        assert asked
        assert asked <= env.keys()
        cores = [int(n) for n in re.findall(r"executor\.(?:instances|cores) +(\d+)", lines)]
        assert int(env["STRANDLINE_CORES"]) == cores[0] * cores[1]
        assert template
        assert template[1] == f"{env['SPARK_CONF_DIR']}/executor.yaml"


def test_the_role_of_a_driver_is_given_to_its_account(cluster: list[Manifest]) -> None:
    (binding,) = named(cluster, "RoleBinding").values()
    drivers = [each for each in pods(cluster) if each.labels.get(DRIVER) == "yes"]

    assert binding["roleRef"]["name"] in named(cluster, "Role")
    assert {each.spec["serviceAccountName"] for each in drivers} == {
        each["name"] for each in binding["subjects"]
    }
    assert len(drivers) == 2
