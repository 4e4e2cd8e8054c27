"""Typed settings: the environment first, then a profile (profiles.py), then defaults; all mistakes are reported together.

Only this module reads environment variables. A name that starts with STRANDLINE_ and is not a setting is
a mistake too: a typo in a variable would otherwise be silently ignored.
"""

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date
from pathlib import Path
from types import UnionType
from typing import Any, get_args
from urllib.parse import urlsplit

from strandline.core.errors import DefinitionError
from strandline.engine.runtime.profiles import (
    OPTIONS,
    TAKEN,
    Bounds,
    Profile,
    SecretStr,
    profile,
    refuse_outside,
)
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
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
"""Where Kubernetes puts the token of a pod, as a JSON Web Token."""
ARCHIVES = (".tar.gz", ".tgz", ".zip")
LEAST_PARTITIONS = 2
LEAST_MEMORY = 512
"""Megabytes: Spark refuses a heap of less than 450, and the garbage collector keeps a part of each heap."""
SECRET = (
    *("kafka_options", "schema_registry", "iceberg", "unity", "master"),
    *("postgres", "webhook", "alarms", "mcp_token"),
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


def _field(*, default: object, **bounds: Any) -> Any:  # noqa: ANN401  # the type of the setting
    return field(default=default, metadata={"bounds": Bounds(**bounds)})


def _options(description: str) -> Any:  # noqa: ANN401  # as above
    return field(default_factory=dict, metadata={"bounds": Bounds(description=description)})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that differ from machine to machine; what is made directly is not checked."""

    lake: str = _field(default=".lake", description="folder of the lake")
    kafka: str | None = _field(
        default=None,
        pattern=r"^[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*$",
        description="host:port of an existing cluster; the lake's own broker when absent",
    )
    kafka_options: dict[str, str] = _options(
        "client properties of that cluster as JSON: security.protocol, sasl.mechanism, …"
    )
    consumer_group: str | None = _field(
        default=None,
        pattern=r"^[^\s{}]*(\{lake\}[^\s{}]*)?\{table\}([^\s{}]*\{lake\})?[^\s{}]*$",
        description="name of a consumer group with {table}, and {lake}, that shows to Kafka's tools how far each bronze table has "
        "read; none is written when absent",
    )
    schema_registry: str | None = _field(
        default=None, pattern=r"^https?://[^\s@]+$", description="address of a schema registry"
    )
    schema_registry_options: dict[str, str] = _options(
        "properties of its client as JSON: basic.auth.user.info, …"
    )
    iceberg: str | None = _field(
        default=None,
        pattern=r"^https?://[^\s@]+$",
        description="address of an Iceberg REST catalog in which other engines find the tables",
    )
    iceberg_options: dict[str, str] = _options(
        "properties of its client as JSON: token, warehouse, s3.endpoint, …"
    )
    ducklake: str | None = _field(
        default=None,
        description="file of a DuckLake in which DuckDB finds the tables, on the disk of the lake",
    )
    unity: str | None = _field(
        default=None,
        pattern=r"^https?://[^\s@]+$",
        description="address of a Unity Catalog in which other engines find the tables",
    )
    unity_options: dict[str, str] = _options(
        "the name of its catalog, and a token, as JSON: catalog, token"
    )
    master: str | None = _field(
        default=None,
        description="Spark cluster, spark://host:port or k8s://host:port; threads of this machine when absent",
    )
    executor_python: str | None = _field(
        default=None,
        pattern=r"^/",
        description="interpreter on the executors of a cluster, or an archive of packages to send them",
    )
    cores: int = _field(
        default=2,
        ge=1,
        le=256,
        description="threads that Spark works with; the most cores of a standalone cluster",
    )
    memory: str = _field(default="2g", pattern=r"^\d+[mg]$", description="heap of Spark's JVM")
    shuffle_partitions: int | None = _field(
        default=None,
        ge=1,
        le=1000,
        description="partitions of state, which a checkpoint pins; 2, or the cores of a cluster, when absent",
    )

    tables_at_once: int | None = _field(
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

    @property
    def store(self) -> str | None:
        """Return the scheme of the object store that the lake is on; None where it is in a folder."""
        scheme = self.lake.partition("://")[0].lower()
        return scheme if scheme in ENDPOINTS else None

    price_core_hour: float = _field(
        default=0.0, ge=0.0, description="what a core costs for an hour, for `strandline cost`"
    )
    price_gigabyte: float = _field(
        default=0.0,
        ge=0.0,
        description="what a gigabyte costs that is written, for as long as it is kept",
    )
    price_million_reads: float = _field(
        default=0.0,
        ge=0.0,
        description="what a million requests cost that read an object on a store, or ask what it is (GET, HEAD)",
    )
    price_million_writes: float = _field(
        default=0.0,
        ge=0.0,
        description="what a million requests cost that write an object on a store, or list some (PUT, COPY, POST, LIST)",
    )
    currency: str = _field(
        default="", max_length=8, description="in which prices are said, such as € or USD"
    )
    lease: float = _field(
        default=30.0,
        ge=1.0,
        le=3600.0,
        description="seconds without a sign of life after which another process takes over a table on an object store",
    )
    sleep: float = _field(
        default=180.0,
        ge=0.0,
        description="seconds without news after which a table of a stream sleeps until there is something to read; 0 never",
    )
    moments_every: float = _field(
        default=10.0,
        ge=0.0,
        description="seconds from one look of a stream for a moment to note to the next; 0 never",
    )
    moments_within: float = _field(
        default=60.0,
        ge=0.0,
        description="seconds without a moment after which the bronze tables of a stream wait for one; 0 never",
    )
    moments_kept: float = _field(
        default=900.0,
        ge=0.0,
        description="seconds for which maintenance leaves every moment that is noted readable",
    )
    first_day: date = _field(
        default=date(2026, 1, 1),
        description="earliest day of events that Dagster offers for backfills; its days begin with the lake's first row",
    )
    postgres: SecretStr | None = _field(
        default=None,
        description="database of Dagster's history, postgresql://user:password@host:port/database",
    )

    rules: str | None = _field(
        default=None,
        description="folder of the alert rules that run; those that were promoted, or the project's, when absent",
    )
    webhook: str | None = _field(
        default=None,
        pattern=r"^https?://\S+$",
        description="address to which failed runs are posted as JSON; when absent, they are only in the log",
    )
    alarms: SecretStr | None = _field(
        default=None,
        description="addresses to which `strandline metrics` brings alarms of the lake, with spaces between: slack+https://{HOST}/…, "
        "pagerduty+https://{KEY}@…, smtps://…",
    )
    runbooks: str | None = _field(
        default=None,
        pattern=r"^https?://\S+$",
        description="address below which people find infra/runbooks, for links in alarms; paths of the repository when absent",
    )
    hosts: str | None = _field(
        default=None,
        pattern=r"^[A-Za-z0-9.-]+(:\d{1,5})?(,[A-Za-z0-9.-]+(:\d{1,5})?)*$",
        description="names under which Dagster's pages and `strandline mcp` are opened, host or host:port with commas; this machine's alone when absent",
    )

    mcp_token: SecretStr | None = _field(
        default=None,
        min_length=16,
        description="token that a client of `strandline mcp --http` sends; drawn anew at each start when absent",
    )

    identity: str | None = _field(
        default=None,
        min_length=1,
        max_length=200,
        description="name of the person or the service that this process works for, where the platform knows it; its own, or the login name, when absent",
    )

    @property
    def public_names(self) -> list[str]:
        """Return the names under which Dagster's pages are opened, beside this machine's."""
        return self.hosts.lower().split(",") if self.hosts else []

    schedules: bool | None = _field(
        default=None,
        description="whether Dagster's schedules run by themselves: all or none; each as its code says when absent",
    )


FIELDS = {each.name: each for each in fields(Settings)}
"""The settings by their names; ``bounds_of`` says what each may be."""


def bounds_of(name: str) -> Bounds:
    """Return what a setting may be."""
    found: Bounds = FIELDS[name].metadata["bounds"]
    return found


def kind_of(name: str) -> type:
    """Return the type of a setting, without that it may be absent."""
    declared: Any = FIELDS[name].type
    kinds = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    found: type = next(each for each in kinds if each is not type(None))
    return dict if name in OPTIONS else found


def _checked(name: str, value: object) -> object:
    """Return the value of a setting, from a text of the environment or a value of TOML.

    Raises:
        ValueError: It may not be that.
    """
    if name in {"lake", "rules", "ducklake"} and isinstance(value, str | os.PathLike):
        value = _absolute(os.fspath(value), is_lake=name == "lake")
    if value is None and isinstance(FIELDS[name].type, UnionType):
        return None
    found = TAKEN[kind_of(name)](value)
    refuse_outside(found, bounds_of(name))
    if name in FURTHER:
        FURTHER[name](text_of(found))
    return found


def _absolute(path: str, *, is_lake: bool) -> str | None:
    if is_lake and "://" in path:
        return path
    return str(Path(path).expanduser().absolute()) if path or is_lake else None


def _refuse_small(memory: str) -> None:
    if _megabytes(memory) < LEAST_MEMORY:
        raise ValueError(f"should be {LEAST_MEMORY}m or more, or Spark does not start")


def _refuse_foreign(master: str) -> None:
    if not MASTER.fullmatch(master):
        raise ValueError(
            "should be spark://host:port or k8s://host:port; "
            "without it Spark works with STRANDLINE_CORES threads of this machine"
        )


def _refuse_unlike(url: str) -> None:
    if not POSTGRES.fullmatch(url):
        raise ValueError(
            "should be postgresql://user:password@host:port/database, "
            "with the characters @ : / % of a password written as %40 %3A %2F %25"
        )


FURTHER: dict[str, Callable[[str], None]] = {
    "memory": _refuse_small,
    "master": _refuse_foreign,
    "postgres": _refuse_unlike,
}
"""What else is asked of the text of a setting."""


def _megabytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


def settings(**given: object) -> Settings:
    """Return the settings: given values first, then the environment, the chosen profile, and the defaults.

    Raises:
        DefinitionError: One or more settings are wrong; the message names all of them.
    """
    known = {PREFIX + name.upper() for name in FIELDS}
    strangers = sorted(
        name
        for name in os.environ
        if name.startswith(PREFIX) and name not in {*known, CHOICE, VARIABLE}
    )
    wrong = [f"{name} is not a setting" for name in strangers]
    stated = {name: value for name, value in given.items() if value is not None}
    chosen = _chosen(stated)
    wrong += chosen.wrong
    variables = {name.upper(): text for name, text in os.environ.items()}
    named = {
        name: variables[PREFIX + name.upper()]
        for name in FIELDS
        if PREFIX + name.upper() in variables
    }
    values = {"lake": Settings().lake, **named, **chosen.values, **stated}
    taken: dict[str, Any] = {}
    for name, value in values.items():
        try:
            taken[name] = _checked(name, value)
        except (KeyError, ValueError) as error:
            what = "is not a setting" if isinstance(error, KeyError) else str(error)
            got = "" if name.startswith(SECRET) else f" (got {value!r})"
            wrong.append(f"{_name(name, chosen)}: {what}{got}")
    if wrong:
        raise DefinitionError(
            "settings are wrong:\n  " + "\n  ".join(wrong),
            hint="correct or unset them; the settings are " + ", ".join(sorted(known)) + ".",
            wrong=wrong,
        )
    found = Settings(**taken)
    for name, value in chosen.others.items():
        os.environ.setdefault(name, value)
    if found.identity:  # of a profile: what signs asks no settings
        os.environ.setdefault(f"{PREFIX}IDENTITY", found.identity)
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
    known = list(FIELDS)
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


def identity() -> str | None:
    """Return whom this process works for, as the platform says it; None where it says nothing.

    By our own setting, by JupyterHub, or by the service account of a pod of Kubernetes.
    """
    named = os.environ.get(f"{PREFIX}IDENTITY") or os.environ.get("JUPYTERHUB_USER")
    return named or _service_account()


def _service_account() -> str | None:
    """Return the name in the token that Kubernetes gives a pod; it names the pod to others, who check it, and here it is a name."""
    try:
        _, claims, _ = SERVICE_ACCOUNT.read_text(encoding="ascii").split(".")
        padded = claims + "=" * (-len(claims) % 4)
        return str(json.loads(base64.urlsafe_b64decode(padded))["sub"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
    values = {name: getattr(found, name) for name in FIELDS}
    texts = {
        PREFIX + name.upper(): text_of(value) for name, value in values.items() if value is not None
    }
    return {**os.environ, **texts}


def text_of(value: object) -> str:
    """Return the value of a setting as the environment has it."""
    match value:
        case dict():
            return json.dumps(value)
        case SecretStr():
            return value.get_secret_value()
        case _:
            return str(value)


def _name(name: str, chosen: Profile) -> str:
    """Return where a wrong value is: in the profile, or in a variable."""
    return f"profile {chosen_profile()}: {name}" if name in chosen.values else PREFIX + name.upper()
