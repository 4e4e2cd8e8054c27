"""Typed settings: the environment first, then a profile (profiles.py), then defaults; all mistakes are reported together.

Only this module reads environment variables. A name that starts with STRANDLINE_ and is not a setting is
a mistake too: a typo in a variable would otherwise be silently ignored.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.profiles import OPTIONS, Profile, profile
from strandline.project import VARIABLE, project

# How the addresses in the settings are written: of a Spark cluster, of Dagster's database, of an object store.


MASTER = re.compile(
    r"spark://[^\s:,/@]+:\d{1,5}(?:,[^\s:,/@]+:\d{1,5})*|k8s://(?:https?://)?[^\s:,/@]+(?::\d{1,5})?/?"
)
"""Spark's own addresses of a standalone cluster, with all of its masters, and of Kubernetes."""
POSTGRES_SHAPE = "postgresql://user:password@host:port/database"
POSTGRES_HINT = (
    f"it is {POSTGRES_SHAPE}, with the characters @ : / % of a password written as %40 %3A %2F %25."
)
POSTGRES = re.compile(
    r"""postgresql://
    (?P<user>(?:[^\s:@/?#%]|%[0-9A-Fa-f]{2})+)
    (?::(?P<password>(?:[^\s:@/?#%]|%[0-9A-Fa-f]{2})+))?
    @(?P<host>[^\s:@/?#%\[\]]+|\[[0-9A-Fa-f:]+\])
    (?::(?P<port>\d{1,5}))?
    /(?P<database>(?:[^\s:@/?#%]|%[0-9A-Fa-f]{2})+)
    (?:\?\S+)?""",
    re.VERBOSE,
)
"""Stricter than the driver, whose error message repeats the part of the address that it cannot parse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Where the object store is, by the variables that the tools of its cloud know; the keys stay in the environment.

    Args:
        endpoint: Its address; the cloud's own when None.
        region: Its region, which S3 alone has.
    """

    endpoint: str | None
    region: str = ""

    @property
    def is_plain(self) -> bool:
        """Return whether it is reached without TLS, such as one on loopback."""
        return self.endpoint is not None and urlsplit(self.endpoint).scheme == "http"


PREFIX = "STRANDLINE_"
CHOICE = f"{PREFIX}PROFILE"
S3A, GS, ABFSS = "s3a", "gs", "abfss"
"""The schemes of lakes on object stores: S3 and what has its interface, Google Cloud Storage, Azure's storage."""
ENDPOINTS = {
    S3A: ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    GS: ("GOOGLE_BASE_URL",),
    ABFSS: ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
"""The variables that name another address than the cloud's own; each of the clients in Python knows them."""
ARCHIVES = (".tar.gz", ".tgz", ".zip")
LEAST_PARTITIONS = 2
LEAST_MEMORY = 512
"""Megabytes: Spark refuses a heap of less than 450, and the garbage collector keeps a part of each heap."""
SECRET = (
    *("kafka_options", "schema_registry", "iceberg", "unity", "master"),
    *("postgres", "webhook", "alarms"),
)
"""Begin the names of those that may hold a password, so a refused value is not repeated."""
RECEIVER = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
"""The beginnings of the variables by which OpenLineage's client finds the receiver of its events."""
OTLP = "OTEL_EXPORTER_OTLP_"
"""The beginning of the variables by which OpenTelemetry's SDK finds its receiver."""
OVER_HTTP = "http/protobuf"
COMPLETES = "_STRANDLINE_COMPLETE"
LINES = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
"""Where shells put the line that they want completed: zsh and fish, and bash."""


class Settings(BaseSettings):
    """The settings that differ from machine to machine."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    lake: str = Field(default=".lake", description="folder of the lake")
    kafka: str | None = Field(
        default=None,
        pattern=r"^[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*$",
        description="host:port of an existing cluster; the lake's own broker when absent",
    )
    kafka_options: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description="client properties of that cluster as JSON: security.protocol, sasl.mechanism, …",
    )
    consumer_group: str | None = Field(
        default=None,
        pattern=r"^[^\s{}]*(\{lake\}[^\s{}]*)?\{table\}([^\s{}]*\{lake\})?[^\s{}]*$",
        description="name of a consumer group with {table}, and {lake}, that shows to Kafka's tools how far each bronze table has "
        "read; none is written when absent",
    )
    schema_registry: str | None = Field(
        default=None, pattern=r"^https?://[^\s@]+$", description="address of a schema registry"
    )
    schema_registry_options: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description="properties of its client as JSON: basic.auth.user.info, …",
    )
    iceberg: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s@]+$",
        description="address of an Iceberg REST catalog in which other engines find the tables",
    )
    iceberg_options: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description="properties of its client as JSON: token, warehouse, s3.endpoint, …",
    )
    ducklake: str | None = Field(
        default=None,
        description="file of a DuckLake in which DuckDB finds the tables, on the disk of the lake",
    )
    unity: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s@]+$",
        description="address of a Unity Catalog in which other engines find the tables",
    )
    unity_options: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description="the name of its catalog, and a token, as JSON: catalog, token",
    )
    master: str | None = Field(
        default=None,
        description="Spark cluster, spark://host:port or k8s://host:port; threads of this machine when absent",
    )
    executor_python: str | None = Field(
        default=None,
        pattern=r"^/",
        description="interpreter on the executors of a cluster, or an archive of packages to send them",
    )
    cores: int = Field(
        default=2,
        ge=1,
        le=256,
        description="threads that Spark works with; the most cores of a standalone cluster",
    )
    memory: str = Field(default="2g", pattern=r"^\d+[mg]$", description="heap of Spark's JVM")
    shuffle_partitions: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="partitions of state, which a checkpoint pins; 2, or the cores of a cluster, when absent",
    )

    tables_at_once: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="tables that a run works on at a time; by cores and memory when absent",
    )

    @property
    def megabytes(self) -> int:
        """Return the size of the heap."""
        return _megabytes(self.memory)

    @property
    def state_partitions(self) -> int:
        """Return into how many parts state and shuffles are divided: on a cluster, every core has one."""
        if self.shuffle_partitions is not None:
            return self.shuffle_partitions
        return max(LEAST_PARTITIONS, self.cores) if self.master else LEAST_PARTITIONS

    @property
    def executor_archive(self) -> Path | None:
        """Return the archive of Python packages that executors are sent; None where they have their own."""
        named = self.executor_python
        return Path(named) if named and named.endswith(ARCHIVES) else None

    @field_validator("master")
    @classmethod
    def _of_spark(cls, master: str | None) -> str | None:
        if master is not None and not MASTER.fullmatch(master):
            raise ValueError(
                "should be spark://host:port or k8s://host:port; "
                "without it Spark works with STRANDLINE_CORES threads of this machine"
            )
        return master

    @property
    def store(self) -> str | None:
        """Return the scheme of the object store that the lake is on; None where it is in a folder."""
        scheme = self.lake.partition("://")[0].lower()
        return scheme if scheme in ENDPOINTS else None

    @field_validator("memory")
    @classmethod
    def _enough_for_spark(cls, memory: str) -> str:
        if _megabytes(memory) < LEAST_MEMORY:
            raise ValueError(f"should be {LEAST_MEMORY}m or more, or Spark does not start")
        return memory

    lease: float = Field(
        default=30.0,
        ge=1.0,
        le=3600.0,
        description="seconds without a sign of life after which another process takes over a table on an object store",
    )
    sleep: float = Field(
        default=180.0,
        ge=0.0,
        description="seconds without news after which a table of a stream sleeps until there is something to read; 0 never",
    )
    first_day: date = Field(
        default=date(2026, 1, 1),
        description="earliest day of events that Dagster offers for backfills; its days begin with the lake's first row",
    )
    postgres: SecretStr | None = Field(
        default=None,
        description="database of Dagster's history, postgresql://user:password@host:port/database",
    )

    @field_validator("postgres")
    @classmethod
    def _of_a_database(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not POSTGRES.fullmatch(url.get_secret_value()):
            raise ValueError(
                "should be postgresql://user:password@host:port/database, "
                "with the characters @ : / % of a password written as %40 %3A %2F %25"
            )
        return url

    rules: str | None = Field(
        default=None,
        description="folder of the alert rules that run; those that were promoted, or the project's, when absent",
    )
    webhook: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="address to which failed runs are posted as JSON; when absent, they are only in the log",
    )
    alarms: SecretStr | None = Field(
        default=None,
        description="addresses to which `strandline metrics` brings alarms of the lake, with spaces between: slack+https://{HOST}/…, "
        "pagerduty+https://{KEY}@…, smtps://…",
    )
    runbooks: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="address below which people find infra/runbooks, for links in alarms; paths of the repository when absent",
    )
    hosts: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9.-]+(:\d{1,5})?(,[A-Za-z0-9.-]+(:\d{1,5})?)*$",
        description="names under which Dagster's pages are opened, host or host:port with commas; this machine's alone when absent",
    )

    @property
    def public_names(self) -> list[str]:
        """Return the names under which Dagster's pages are opened, beside this machine's."""
        return self.hosts.lower().split(",") if self.hosts else []

    schedules: bool | None = Field(
        default=None,
        description="whether Dagster's schedules run by themselves: all or none; each as its code says when absent",
    )

    @field_validator(*OPTIONS, mode="before")
    @classmethod
    def _from_json(cls, options: object) -> object:
        try:
            return json.loads(options) if isinstance(options, str) else options
        except ValueError as error:
            raise ValueError("should be a JSON object of texts") from error

    @field_validator("lake", mode="before")
    @classmethod
    def _absolute(cls, lake: "str | os.PathLike[str]") -> str:
        named = os.fspath(lake)
        return named if "://" in named else str(Path(named).expanduser().absolute())

    @field_validator("rules", "ducklake", mode="before")
    @classmethod
    def _absolute_path(cls, path: "str | os.PathLike[str] | None") -> str | None:
        return str(Path(path).expanduser().absolute()) if path else None


def _megabytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


def settings(**given: object) -> Settings:
    """Return the settings: given values first, then the environment, the chosen profile, and the defaults.

    Raises:
        DefinitionError: One or more settings are wrong; the message names all of them.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    strangers = sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and name not in {*known, CHOICE, VARIABLE}
    )
    wrong = [f"{name} is not a setting" for name in strangers]
    stated = {name: value for name, value in given.items() if value is not None}
    chosen = _chosen(stated)
    wrong += chosen.wrong
    found = None
    try:
        found = Settings(**{**chosen.values, **stated})  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        wrong += [
            f"{_name(e['loc'], chosen)}: {e['msg']}"
            + ("" if str(e["loc"][0]).startswith(SECRET) else f" (got {e['input']!r})")
            for e in error.errors()
        ]
    if wrong or found is None:
        raise DefinitionError(
            "settings are wrong:\n  " + "\n  ".join(wrong),
            hint="correct or unset them; the settings are " + ", ".join(sorted(known)) + ".",
            wrong=wrong,
        )
    for name, value in chosen.others.items():
        os.environ.setdefault(name, value)
    return found


def choose_profile(name: str) -> None:
    """Choose a profile for this process and the programs that it starts."""
    os.environ[CHOICE] = name


def choose(name: str, value: str) -> None:
    """Choose a setting, or the folder of the project, for this process and the programs that it starts."""
    os.environ[PREFIX + name.upper()] = value


def chosen_profile() -> str | None:
    """Return the name of the chosen profile."""
    return os.environ.get(CHOICE) or None


def _chosen(stated: Mapping[str, object]) -> Profile:
    """Return what the chosen profile says where neither the caller nor the environment does."""
    name = chosen_profile()
    if name is None:
        return Profile()
    known = list(Settings.model_fields)
    given = [*stated, *os.environ, *(n for n in known if PREFIX + n.upper() in os.environ)]
    return profile(name, project(), known, os.environ.get, replaced=given)


def lease_seconds() -> float:
    """Return how long a lease on an object store lasts without a renewal."""
    return settings().lease


def store_options(scheme: str) -> StoreOptions:
    """Return where the object store of a scheme is."""
    named = (os.environ.get(each) for each in ENDPOINTS[scheme])
    endpoint = next((each for each in named if each), None)
    if scheme != S3A:
        return StoreOptions(endpoint=endpoint)
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return StoreOptions(endpoint=endpoint, region=region)


def has_token() -> bool:
    """Return whether the environment has a token for Google Cloud Storage, which is used instead of other credentials."""
    return bool(os.environ.get("GOOGLE_BEARER_TOKEN"))


def azure_identity() -> dict[str, str]:
    """Return by which identity Azure is asked, a client, a tenant and the file of a token, each of which may be empty.

    Nothing where the account's key is used.
    """
    if os.environ.get("AZURE_STORAGE_ACCOUNT_KEY"):
        return {}
    names = {
        "client": "AZURE_CLIENT_ID",
        "tenant": "AZURE_TENANT_ID",
        "file": "AZURE_FEDERATED_TOKEN_FILE",
    }
    return {key: os.environ.get(name, "") for key, name in names.items()}


def address_in(variable: str) -> str:
    """Return the address in a variable that a declaration names, because it has a password; empty without one."""
    return os.environ.get(variable, "")


def lineage_namespace() -> str | None:
    """Return the namespace of jobs for OpenLineage; None without a receiver. Its client is not asked: its import takes long."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return None
    files = (Path("openlineage.yml"), Path.home() / ".openlineage" / "openlineage.yml")
    is_named = any(name.startswith(RECEIVER) for name in os.environ)
    if not is_named and not any(file.is_file() for file in files):
        return None
    return os.environ.get("OPENLINEAGE_NAMESPACE") or "strandline"


def telemetry() -> frozenset[str]:
    """Return what is sent by OpenTelemetry's protocol, ``traces`` and ``metrics``, by the variables that its SDK reads.

    Raises:
        DefinitionError: They ask for another protocol than the one that is used here.
    """
    env = os.environ.get
    if env("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return frozenset()
    found = {
        each
        for each in ("TRACES", "METRICS")
        if (env(f"{OTLP}ENDPOINT") or env(f"{OTLP}{each}_ENDPOINT"))
        and env(f"OTEL_{each}_EXPORTER") != "none"
    }
    asked = {env(f"{OTLP}{s}_PROTOCOL") or env(f"{OTLP}PROTOCOL") or OVER_HTTP for s in found}
    if others := asked - {OVER_HTTP}:
        raise DefinitionError(
            f"telemetry is sent by {OVER_HTTP} alone, and {OTLP}PROTOCOL asks for {others.pop()}",
            hint=f"let it be {OVER_HTTP}, and the endpoint a receiver's port for that, 4318 by custom.",
        )
    return frozenset(each.lower() for each in found)


def telemetry_endpoint() -> str:
    """Return the address of the receiver of traces, or else of figures."""
    names = (f"{OTLP}ENDPOINT", f"{OTLP}TRACES_ENDPOINT", f"{OTLP}METRICS_ENDPOINT")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def trace_above() -> str | None:
    """Return the trace context of what started this process."""
    return os.environ.get("TRACEPARENT")


def is_submitted() -> bool:
    """Return whether spark-submit started this process, and a JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def connect_variable() -> str | None:
    """Return the variable by which PySpark is a client of Spark Connect in this process; None where none is set.

    Not its value, which may have a token in it. The last PySpark sets itself with the first such session, and what this process
    starts inherits it.
    """
    if os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        return "SPARK_API_MODE"
    if os.environ.get("SPARK_CONNECT_MODE") == "1":
        return "SPARK_CONNECT_MODE"
    names = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    return next((name for name in names if name in os.environ), None)


def near_folder(lake: str) -> Path:
    """Return the folder of this machine for what belongs to a lake that is elsewhere, by its address."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "strandline" / re.sub(r"[^A-Za-z0-9._-]+", "-", lake).strip("-")


def line_of_shell() -> str | None:
    """Return the line that a shell wants completed; None when no shell asks."""
    if not os.environ.get(COMPLETES, "").startswith("complete_"):
        return None
    return next((os.environ[name] for name in LINES if name in os.environ), "")


def environment(found: Settings) -> dict[str, str]:
    """Return the environment that gives another program of the project the same settings."""
    values = {name: getattr(found, name) for name in Settings.model_fields}
    texts = {
        PREFIX + name.upper(): _text(value) for name, value in values.items() if value is not None
    }
    return {**os.environ, **texts}


def _text(value: object) -> str:
    match value:
        case dict():
            return json.dumps(value)
        case SecretStr():
            return value.get_secret_value()
        case _:
            return str(value)


def _name(location: tuple[int | str, ...], chosen: Profile) -> str:
    """Return where a wrong value is: in the profile, or in a variable."""
    if location and location[0] in chosen.values:
        return f"profile {chosen_profile()}: {'.'.join(str(part) for part in location)}"
    return PREFIX + ".".join(str(part) for part in location).upper()
