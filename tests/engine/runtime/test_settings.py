"""Settings are read once, and all mistakes in them are reported together."""

from datetime import date
from pathlib import Path

import pytest

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.settings import FIELDS, environment, settings


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the settings of this machine."""
    for name in FIELDS:
        monkeypatch.delenv(f"STRANDLINE_{name.upper()}", raising=False)


def wrong() -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        settings()
    found = caught.value.fields["wrong"]
    assert isinstance(found, list)
    assert caught.value.hint
    return found


def test_without_any_variable_the_defaults_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The lake is made absolute, so that Spark in another folder finds the same one."""
    monkeypatch.chdir(tmp_path)

    found = settings()

    assert (found.lake, found.kafka, found.kafka_options) == (str(tmp_path / ".lake"), None, {})


def test_a_given_value_wins_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An option that was typed overrides the variable; without it the variable counts."""
    monkeypatch.setenv("STRANDLINE_LAKE", str(tmp_path / "variable"))

    assert settings(lake=tmp_path / "typed").lake == str(tmp_path / "typed")
    assert settings(lake=None).lake == str(tmp_path / "variable")


def test_options_of_a_cluster_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names are Kafka's own."""
    monkeypatch.setenv("STRANDLINE_KAFKA", "10.0.0.1:9092,10.0.0.2:9092")
    monkeypatch.setenv("STRANDLINE_KAFKA_OPTIONS", '{"security.protocol": "SASL_SSL"}')

    found = settings()

    assert found.kafka == "10.0.0.1:9092,10.0.0.2:9092"
    assert found.kafka_options == {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("CORES", " 12 ", 12),
        ("LEASE", "2.5", 2.5),
        ("MOMENTS_EVERY", "0", 0.0),
        ("FIRST_DAY", "2025-06-30", date(2025, 6, 30)),
        ("SCHEDULES", "Yes", True),
        ("SCHEDULES", "0", False),
        ("RULES", "", None),
        ("UNITY_OPTIONS", '{"catalog": "lake"}', {"catalog": "lake"}),
    ],
)
def test_a_variable_is_a_text_and_a_setting_has_a_type(
    name: str, value: str, wanted: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in every other program: whole numbers, numbers, days, yes and no."""
    monkeypatch.setenv(f"STRANDLINE_{name}", value)

    found = settings()

    assert getattr(found, name.lower()) == wanted
    assert type(getattr(found, name.lower())) is type(wanted)
    given = environment(found)
    monkeypatch.setenv(f"STRANDLINE_{name}", given.get(f"STRANDLINE_{name}", ""))
    assert settings() == found


@pytest.mark.whole
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CORES", "2.5"),
        ("CORES", "257"),
        ("LEASE", "nan"),
        ("LEASE", "0.5"),
        ("LEASE", "soon"),
        ("FIRST_DAY", "yesterday"),
        ("SCHEDULES", "sometimes"),
        ("CURRENCY", "a long word"),
        ("MCP_TOKEN", "short"),
        ("IDENTITY", ""),
        ("WEBHOOK", "http:" + "//127.0.0.1/T0\n"),
        ("KAFKA_OPTIONS", '{"retries": 3}'),
        ("KAFKA", "localhost"),
        ("KAFKA", "localhost:kafka"),
        ("KAFKA", "http:" + "//localhost:9092"),
        ("KAFKA", "localhost:9092,"),
        ("KAFKA", ""),
        ("KAFKA_OPTIONS", "security.protocol=SSL"),
        ("KAFKA_OPTIONS", '["SSL"]'),
        ("CORES", "0"),
        ("CORES", "many"),
        ("MEMORY", "2 gigabytes"),
        ("SHUFFLE_PARTITIONS", "-1"),
        ("MASTER", ""),
        ("MASTER", "local[4]"),
        ("MASTER", "spark://10.0.0.1"),
        ("MASTER", "spark://ann:hunter2@10.0.0.1:7077"),
        ("MASTER", "spark://10.0.0.1:7077,"),
        ("MASTER", "k8s://"),
        ("MASTER", "yarn"),
        ("EXECUTOR_PYTHON", "python3"),
        ("EXECUTOR_PYTHON", "packages.tar.gz"),
        ("POSTGRES", ""),
        ("POSTGRES", "localhost/dagster"),
        ("POSTGRES", "mysql://ann:hunter2@localhost/dagster"),
        ("POSTGRES", "postgresql://ann:hunter2@localhost"),
    ],
)
def test_a_wrong_value_is_reported_with_its_variable(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has the name that the user typed, not the field."""
    monkeypatch.setenv(f"STRANDLINE_{name}", value)

    (mistake,) = wrong()

    assert f"STRANDLINE_{name}" in mistake


@pytest.mark.parametrize(
    "master",
    [
        "spark://10.0.0.1:7077",
        "spark://one:7077,two:7077",
        "k8s://https" + "://10.0.0.1:6443",
        "k8s://https" + "://kubernetes.default.svc",
        "k8s://10.0.0.1:6443",
    ],
)
def test_every_core_of_a_cluster_has_a_part_of_the_state(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one machine two parts are enough; a number that was set counts in both."""
    monkeypatch.setenv("STRANDLINE_CORES", "12")
    assert settings().state_partitions == 2

    monkeypatch.setenv("STRANDLINE_MASTER", master)
    assert settings().state_partitions == 12

    monkeypatch.setenv("STRANDLINE_SHUFFLE_PARTITIONS", "4")
    assert settings().state_partitions == 4


def test_a_variable_that_is_no_setting_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing mistake would otherwise be silently ignored, and the default used."""
    monkeypatch.setenv("STRANDLINE_LAEK", "/data")

    assert wrong() == ["STRANDLINE_LAEK is not a setting"]


def test_all_mistakes_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One at a time would cost one start each."""
    monkeypatch.setenv("STRANDLINE_LAEK", "/data")
    monkeypatch.setenv("STRANDLINE_CORES", "0")
    monkeypatch.setenv("STRANDLINE_MEMORY", "much")
    monkeypatch.setenv("STRANDLINE_KAFKA_OPTIONS", "no json")

    message = "\n".join(wrong())

    for name in (
        "STRANDLINE_LAEK",
        "STRANDLINE_CORES",
        "STRANDLINE_MEMORY",
        "STRANDLINE_KAFKA_OPTIONS",
    ):
        assert name in message


@pytest.mark.parametrize(
    "part", ["hun@ter2", "hun/ter2", "hun:ter2", "hun?ter2", "hun#ter2", "hun%ter2"]
)
def test_a_password_with_reserved_characters_is_refused_with_their_escapes(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver would read the rest of it as the host, and repeat it in its message."""
    monkeypatch.setenv("STRANDLINE_POSTGRES", f"postgresql://ann:{part}@localhost/dagster")

    message = "\n".join(wrong())

    assert "%40" in message
    assert "ter2" not in message


def test_the_address_of_a_database_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are printed in the search for a mistake."""
    url = "postgresql://ann:hun%40ter2@[::1]:5432/dagster?sslmode=require"
    monkeypatch.setenv("STRANDLINE_POSTGRES", url)

    found = settings()

    assert "ter2" not in repr(found)
    assert found.postgres is not None
    assert found.postgres.get_secret_value() == url


def test_a_password_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake in the options is reported without their values."""
    monkeypatch.setenv("STRANDLINE_KAFKA_OPTIONS", '{"sasl.password": ["hunter2"]}')

    assert "hunter2" not in "\n".join(wrong())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCHEMA_REGISTRY", "http" + "://ann:hunter2@registry:8081"),
        ("MASTER", "spark://ann:hunter2@10.0.0.1:7077"),
    ],
)
def test_an_address_with_a_user_is_not_repeated(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"STRANDLINE_{name}", value)

    (text,) = wrong()
    assert name in text
    assert "hunter2" not in text
