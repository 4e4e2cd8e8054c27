"""A profile is between the environment and the defaults, holds no secret, and names each of its mistakes."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.runtime import settings as door
from strandline.engine.runtime.settings import CHOICE, FIELDS, settings
from strandline.project import Project

Write = Callable[..., None]
USER = "ann:hunter2"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """Return a function that gives the profile prod its values and chooses it."""

    def put(values: Mapping[str, Any], chosen: str = "prod") -> None:
        made = Project(root=tmp_path, tables="shop", profiles={"prod": values, "dev": {}})
        monkeypatch.setattr(door, "project", lambda: made)
        monkeypatch.setenv(CHOICE, chosen)

    for name in FIELDS:
        monkeypatch.delenv(f"STRANDLINE_{name.upper()}", raising=False)
    return put


def refused(**given: object) -> str:
    """Return the error of settings that are wrong, with its hint."""
    with pytest.raises(DefinitionError) as error:
        settings(**given)
    return str(error.value)


def test_the_environment_comes_before_the_profile_and_the_profile_before_the_defaults(
    written: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is typed comes first of all."""
    written({"lake": "data", "cores": 4, "memory": "3g", "schedules": True})
    monkeypatch.setenv("STRANDLINE_MEMORY", "5g")

    found = settings(cores=8)

    assert (found.cores, found.memory, found.lease) == (8, "5g", 30.0)
    assert found.lake == str(tmp_path / "data")
    assert found.schedules is True


def test_secrets_are_read_from_where_they_are_named(
    written: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A variable, or a file whose last line end is no part of it."""
    (tmp_path / "secret").write_text("http://127.0.0.1/T0/B1\n")
    monkeypatch.setenv("SHOP_POSTGRES", "postgresql://ann:hunter2@db/runs")
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter3")
    written(
        {
            "postgres": {"env": "SHOP_POSTGRES"},
            "webhook": {"file": "secret"},
            "kafka_options": {"sasl.username": "shop", "sasl.password": {"env": "KAFKA_PASSWORD"}},
        }
    )

    found = settings()

    assert found.postgres is not None
    assert found.postgres.get_secret_value() == "postgresql://ann:hunter2@db/runs"
    assert found.webhook == "http://127.0.0.1/T0/B1"
    assert found.kafka_options == {"sasl.username": "shop", "sasl.password": "hunter3"}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            {"postgres": "postgresql://ann:hunter2@db/runs"},
            "postgres has a password in its address",
        ),
        ({"webhook": "http://127.0.0.1/hunter2"}, "webhook is written in the file"),
        ({"kafka_options": {"sasl.password": "hunter2"}}, "sasl.password is written in the file"),
        ({"kafka_options": {"sasl.jaas.config": "hunter2"}}, "sasl.jaas.config is written"),
        ({"environment": {"AWS_SECRET_ACCESS_KEY": "hunter2"}}, "AWS_SECRET_ACCESS_KEY is written"),
        (
            {"environment": {"OPENLINEAGE_URL": f"http://{USER}@localhost"}},
            "OPENLINEAGE_URL has a password in its address",
        ),
        ({"kafka_options": '{"sasl.password": "hunter2"}'}, "sasl.password is written"),
        ({"kafka_options": '{"sasl.password": "hunter2"'}, "kafka_options has a secret"),
        ({"kafka_options": {"ssl.keystore.key": "hunter2"}}, "ssl.keystore.key is written"),
        ({"kafka_options": {"sasl.password": 40112}}, "sasl.password is written"),
        (
            {"kafka_options": {"sasl.oauthbearer.config": "scope=a clientSecret=hunter2"}},
            "sasl.oauthbearer.config has a secret",
        ),
        (
            {"schema_registry_options": {"basic.auth.user.info": USER}},
            "basic.auth.user.info is written",
        ),
        (
            {"postgres": "postgresql://ann@db/runs?password=hunter2"},
            "postgres has a secret among its parameters",
        ),
        (
            {"postgres": "postgresql://ann@db/runs?pass%77ord=hunter2"},
            "postgres has a secret among its parameters",
        ),
        ({"lake": f"s3a://{USER}@lakes/shop"}, "lake has a password in its address"),
        ({"environment": {"OPENLINEAGE_API_KEY": "hunter2"}}, "OPENLINEAGE_API_KEY is written"),
        (
            {"environment": {"OPENLINEAGE__TRANSPORT__AUTH__APIKEY": "hunter2"}},
            "OPENLINEAGE__TRANSPORT__AUTH__APIKEY is written",
        ),
        (
            {"environment": {"OPENLINEAGE__TRANSPORT": '{"auth": {"apiKey": "hunter2"}}'}},
            "OPENLINEAGE__TRANSPORT has a secret",
        ),
        ({"environment": {"AWS_SECRET_ACCESS_KEY": 5}}, "AWS_SECRET_ACCESS_KEY is written"),
        ({"alarms": "slack+http://127.0.0.1/hunter2"}, "alarms is written in the file"),
        (
            {"environment": {"OTEL_EXPORTER_OTLP_HEADERS": "x=hunter2"}},
            "OTEL_EXPORTER_OTLP_HEADERS is written",
        ),
    ],
)
def test_a_secret_in_plain_text_is_refused(
    values: Mapping[str, Any], sentence: str, written: Write
) -> None:
    """The file is kept in a repository. The error says what to write instead, and does not repeat the secret."""
    written(values)

    text = refused()

    assert "profile prod: " in text
    assert sentence in text
    assert '{ env = "NAME" } or { file = "path" }' in text
    assert "hunter2" not in text


def test_what_only_resembles_a_secret_is_taken(
    written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path to a secret, the name of a key, an address whose parameters are none."""
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "")
    monkeypatch.delenv("AWS_WEB_IDENTITY_TOKEN_FILE")
    options = {
        "ssl.keystore.location": "/run/secrets/store",
        "sasl.oauthbearer.assertion.private.key.file": "/run/secrets/key",
        "ssl.endpoint.identification.algorithm": "https",
    }
    written(
        {
            "kafka_options": json.dumps(options),
            "postgres": "postgresql://ann@db/runs?sslmode=require",
            "environment": {"AWS_WEB_IDENTITY_TOKEN_FILE": "/run/secrets/token"},
        }
    )

    assert settings().kafka_options == options


@pytest.mark.parametrize("key", ["lake", "rules"])
@pytest.mark.parametrize("value", [7, [], ["a"]])
def test_a_folder_that_is_no_text_is_a_mistake_of_the_profile(
    key: str, value: object, written: Write
) -> None:
    """Named with the profile and the key, as every other."""
    written({key: value})

    assert f"profile prod: {key} is {value!r}, and should be a text" in refused()


def test_all_mistakes_are_named_together(written: Write) -> None:
    """With what is near, and where each is."""
    written(
        {
            "kafak": "broker:9092",
            "cores": "many",
            "postgres": {"env": "NOT_SET_ANYWHERE"},
            "webhook": {"file": "no/such/file"},
            "rules": {"env": "A", "file": "b"},
            "environment": {"PATH": "/bin"},
        }
    )

    text = refused()

    assert "profile prod: kafak is not a setting; did you mean kafka?" in text
    assert "profile prod: cores: " in text
    assert "postgres: the variable NOT_SET_ANYWHERE is not set" in text
    assert "webhook: the file no/such/file cannot be read" in text
    assert "rules is neither a value nor a reference" in text
    assert "PATH is not a variable that belongs here" in text


def test_a_secret_that_a_variable_replaces_need_not_be_there(
    written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may try production's profile with a database of their own."""
    written({"postgres": {"env": "NOT_SET_ANYWHERE"}})
    monkeypatch.setenv("STRANDLINE_POSTGRES", "postgresql://ann@localhost/mine")

    assert settings().postgres is not None


def test_an_unknown_profile_names_what_is_near(written: Write) -> None:
    """And all that there are."""
    written({}, chosen="prd")

    assert re.search(r"no profile prd in .*did you mean prod\?.*dev, prod", refused(), re.DOTALL)


def test_a_profile_where_no_project_is_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silently taking the defaults would write to another lake."""
    monkeypatch.setattr(door, "project", lambda: None)
    monkeypatch.setenv(CHOICE, "prod")

    assert "no strandline.toml is here" in refused()


def test_variables_of_others_are_set_where_they_are_not(
    written: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's address and region, which AWS's tools read."""
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    written(
        {"environment": {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}}
    )

    settings()

    found = door.store_options("s3a")
    assert (found.region, found.endpoint) == ("eu-north-1", "http://127.0.0.1:1")
