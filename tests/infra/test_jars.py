"""A set of jars counts only whole and from the current list. No network, no JVM."""

import hashlib
import json
from pathlib import Path

import pytest

from strandline_infra import java, setup

ROOT = Path(setup.__file__).parents[2]
PROJECT = '[project]\nname = "x"\ndependencies = ["a"]\n[tool.ruff]\nline-length = 100\n'


@pytest.fixture(name="venv")
def _venv(tmp_path: Path) -> Path:
    """Return an environment with the broker's jars."""
    folder = tmp_path / "jars" / "broker"
    folder.mkdir(parents=True)
    (folder / "a.jar").write_bytes(b"abc")
    note = {"list": java._fingerprint(java.LISTS / "broker.xml"), "jars": {"a.jar": 3}}
    (folder / java.NOTE).write_text(json.dumps(note))
    return tmp_path


def test_a_whole_set_of_jars_is_given(venv: Path) -> None:
    """The ordinary case."""
    assert java.broker_jars(venv) == [venv / "jars" / "broker" / "a.jar"]
    assert java.spark_jars(venv) == []


@pytest.mark.parametrize("left", [b"ab", None])
def test_a_set_with_a_jar_cut_short_or_lost_does_not_count(venv: Path, left: bytes | None) -> None:
    """A full disk cuts files short, and Java's message about that names neither the jar nor the cause."""
    jar = venv / "jars" / "broker" / "a.jar"
    jar.unlink() if left is None else jar.write_bytes(left)

    assert java.broker_jars(venv) == []


def test_a_set_from_another_list_does_not_count(
    venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pull that moves the broker's version, the old broker must not start."""
    lists = venv / "lists"
    lists.mkdir()
    (lists / "broker.xml").write_text("another")
    monkeypatch.setattr(java, "LISTS", lists)

    assert java.broker_jars(venv) == []


def test_jars_that_were_interrupted_on_their_way_do_not_count(tmp_path: Path) -> None:
    """They lie in a folder of another name until they are all there."""
    partial = tmp_path / "jars" / "broker.partial"
    partial.mkdir(parents=True)
    (partial / "a.jar").touch()

    assert java.broker_jars(tmp_path) == []


def test_the_machines_authorities_are_handed_to_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a company's gateway a Java from a wheel knows none of its certificates."""
    bundle = tmp_path / "bundle.pem"
    one = "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n"
    bundle.write_text(f"# a comment\n{one}{one}")
    monkeypatch.setenv("PIP_CERT", str(bundle))

    options = java.java_options(tmp_path / "ivy")

    store = (tmp_path / "ivy" / "trust.jks").read_bytes()
    assert options[0] == f"-Djavax.net.ssl.trustStore={tmp_path / 'ivy' / 'trust.jks'}"
    assert store[:12] == bytes.fromhex("feedfeed 00000002 00000002")
    assert store.count(b"\x00\x00\x00\x03\x00\x01\x02") == 2
    assert store[-20:] == hashlib.sha1(java.SALT + store[:-20], usedforsecurity=False).digest()
