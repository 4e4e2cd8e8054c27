"""Typed settings, read from the environment once, every mistake told at once.

This is the only door to environment variables. A name that starts with STRANDLINE_ and is not a setting is
a mistake too: a typo in a variable would otherwise be silently ignored.
"""

import json
import os
import re
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from jobs.core.errors import DefinitionError

PREFIX = "STRANDLINE_"
LEAST_MEMORY = 512
"""Megabytes: Spark refuses a heap of less than 450 of which the collector keeps a part."""
SECRET = {"kafka_options", "postgres", "webhook"}
"""May hold a password, so a refused value is not repeated."""

COMPLETES = "_STRANDLINE_COMPLETE"
LINES = ("_TYPER_COMPLETE_ARGS", "COMP_WORDS")
"""Where shells put the line that they want completed: zsh and fish, and bash."""

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
"""Stricter than the driver, which repeats in its complaint what stands where it expects something else."""


class Settings(BaseSettings):
    """What differs from machine to machine."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    lake: Path = Field(default=Path(".lake"), description="folder of the lake")
    kafka: str | None = Field(
        default=None,
        pattern=r"^[^\s:,]+:\d{1,5}(,[^\s:,]+:\d{1,5})*$",
        description="host:port of an existing cluster; our own broker when absent",
    )
    kafka_options: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description="client properties of that cluster as JSON: security.protocol, sasl.mechanism, …",
    )
    cores: int = Field(default=2, ge=1, le=256, description="threads that Spark works with")
    memory: str = Field(default="2g", pattern=r"^\d+[mg]$", description="heap of Spark's JVM")
    shuffle_partitions: int = Field(
        default=2, ge=1, le=1000, description="partitions of state; a checkpoint pins them"
    )

    @field_validator("memory")
    @classmethod
    def _enough_for_spark(cls, memory: str) -> str:
        megabytes = int(memory[:-1]) * (1024 if memory.endswith("g") else 1)
        if megabytes < LEAST_MEMORY:
            raise ValueError(f"should be {LEAST_MEMORY}m or more, or Spark does not start")
        return memory

    first_day: date = Field(
        default=date(2026, 1, 1),
        description="first day of events that Dagster offers for backfills",
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
                "with signs such as @ : / % of a password written as %40 %3A %2F %25"
            )
        return url

    webhook: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="where failed runs are told, as JSON by POST; in the log alone when absent",
    )

    @field_validator("kafka_options", mode="before")
    @classmethod
    def _from_json(cls, options: object) -> object:
        try:
            return json.loads(options) if isinstance(options, str) else options
        except ValueError as error:
            raise ValueError("should be a JSON object of texts") from error

    @field_validator("lake")
    @classmethod
    def _absolute(cls, lake: Path) -> Path:
        return lake.expanduser().absolute()


def settings(**given: object) -> Settings:
    """Return the settings: what is given here, then the environment, then the defaults.

    Raises:
        DefinitionError: One or more settings are wrong; all of them are named.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    strangers = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)
    wrong = [f"{name} is not a setting" for name in strangers]
    found = None
    try:
        found = Settings(**{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        wrong += [
            f"{_variable(e['loc'])}: {e['msg']}"
            + ("" if e["loc"][0] in SECRET else f" (got {e['input']!r})")
            for e in error.errors()
        ]
    if wrong or found is None:
        raise DefinitionError(
            "settings are wrong:\n  " + "\n  ".join(wrong),
            hint="correct or unset them; the settings are " + ", ".join(sorted(known)) + ".",
            wrong=wrong,
        )
    return found


def line_of_shell() -> str | None:
    """Return the line that a shell wants completed; None when none asks."""
    if not os.environ.get(COMPLETES, "").startswith("complete_"):
        return None
    return next((os.environ[name] for name in LINES if name in os.environ), "")


def environment(found: Settings) -> dict[str, str]:
    """Return the variables with which another program of ours finds the same settings."""
    told = {name: getattr(found, name) for name in Settings.model_fields}
    texts = {
        PREFIX + name.upper(): _text(value) for name, value in told.items() if value is not None
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


def _variable(location: tuple[int | str, ...]) -> str:
    return PREFIX + ".".join(str(part) for part in location).upper()
