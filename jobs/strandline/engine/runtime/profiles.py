"""Profiles: named sets of settings in a project's ``strandline.toml``, such as those of ``dev`` and of ``prod``.

A variable of the environment comes before a profile, a profile before the defaults. A secret is only named, as
``{ env = "NAME" }`` or ``{ file = "path" }``: the file is kept in a repository. What a variable replaces is not resolved, so the
secrets of a profile need not be where they are not asked for.

All mistakes of a profile are found together, each with what to change.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from strandline.core.errors import DefinitionError
from strandline.project import FILE, Project, near

NAME = re.compile(
    r"password|passphrase|passwd|secret|token|jaas|credential|private|key\.pem|user\.info|authorization|cookie"
    r"|otlp\w*_headers$|key$",
    re.IGNORECASE,
)
"""Options of Kafka's and of the registry's clients, variables of AWS and of OpenLineage; ``key`` at the end are theirs of API keys,
``ssl.keystore.key`` and AWS_SECRET_ACCESS_KEY, and not AWS_ACCESS_KEY_ID, which is no secret."""
ELSEWHERE = re.compile(r"[._](?:file|location|path|application_credentials)$", re.IGNORECASE)
"""The end of a name whose value says where the secret is; GOOGLE_APPLICATION_CREDENTIALS names a file too."""

USER = re.compile(r"://[^/\s@]*:[^/\s@]+@")
"""The user of an address with a password; also of one that cannot be parsed."""
INSIDE = re.compile(
    r"(?:password|passphrase|passwd|secret|token|api[._-]?key|access[._-]?key)[\w.-]*(?:\s*=|[\"']\s*:)\s*[\"']?[^\s&;\"']",
    re.IGNORECASE,
)
"""A parameter of an address, an item of JSON or of a list of options."""
FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|^(?:basic|bearer)\s+\S{4}", re.IGNORECASE | re.MULTILINE
)
"""A key in PEM, a header that authorizes."""


def is_secret_name(name: str) -> bool:
    """Return whether an option or a variable of this name has a secret.

    >>> [name for name in ("sasl.password", "ssl.keystore.key", "ssl.keystore.location") if is_secret_name(name)]
    ['sasl.password', 'ssl.keystore.key']
    """
    return bool(NAME.search(name)) and not ELSEWHERE.search(name)


def secret_in(value: object) -> str:
    """Return what is secret in a value by its form, as the end of a sentence; empty if nothing is.

    What is secret in a value that is written in plain text, found by its name and by its form.

    Both are needed: the option ``basic.auth.user.info`` has a password by its meaning, and an address may have one before its host
    or among its parameters. A name is judged whatever kind of value it has, because a password may be a number. Names that end like
    those of a path are none: AWS_WEB_IDENTITY_TOKEN_FILE says where a secret is.

    >>> secret_in("postgresql://shop@db/runs?password=hunter2")
    'has a secret among its parameters'
    >>> secret_in("postgresql://shop@db/runs?sslmode=require")
    ''
    """
    if not isinstance(value, str):
        return ""
    text = unquote(value)
    if USER.search(value) or USER.search(text):
        return "has a password in its address"
    if INSIDE.search(text):
        return "has a secret among its parameters"
    return "has a secret" if FORMS.search(text) else ""


OTHERS = "environment"
"""The part of a profile with variables that other programs' makers defined: where the store is, its keys, the receivers of lineage and of telemetry."""
FOREIGN = re.compile(r"(?:AWS|AZURE|GOOGLE|OPENLINEAGE|OTEL)_\w+")
PATHS = ("lake", "rules", "ducklake")
"""Relative ones begin at the project's folder, wherever the program is started."""
POSTED_TO = ("webhook", "alarms", "mcp_token")
"""Secrets as a whole: who knows one may post to it, or ask by it."""
OPTIONS = ("kafka_options", "schema_registry_options", "iceberg_options", "unity_options")
"""Those that are sections of names and values."""
WAYS = ("env", "file")
HOW = 'name the secret instead: { env = "NAME" } or { file = "path" }'


@dataclass(slots=True, kw_only=True)
class Profile:
    """What a profile says.

    Args:
        values: Its settings, resolved.
        others: Variables for programs of other makers.
        wrong: Its mistakes.
    """

    values: dict[str, object] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def profile(
    name: str,
    project: Project | None,
    known: Sequence[str],
    lookup: Callable[[str], str | None],
    *,
    replaced: Sequence[str] = (),
) -> Profile:
    """Read a profile.

    Args:
        name: Its name.
        project: The project that this process works for.
        known: The settings that there are.
        lookup: Returns the value of a variable of the environment.
        replaced: Settings and variables that come from elsewhere.

    Raises:
        DefinitionError: There is no such profile.
    """
    written = _written(name, project)
    assert project is not None  # noqa: S101  # for mypy: _written has refused it
    found = Profile()
    for key, value in written.items():
        if key == OTHERS:
            _take_others(found, value, project.root, lookup, replaced)
        elif key not in known:
            meant = near(key, [*known, OTHERS]) or f"the settings are {', '.join(sorted(known))}. "
            found.wrong.append(f"{key} is not a setting; {meant.rstrip()}")
        elif key not in replaced:
            _take(found, key, value, project.root, lookup)
    found.wrong = [f"profile {name}: {each}" for each in found.wrong]
    return found


def _written(name: str, project: Project | None) -> Mapping[str, Any]:
    if project is None:
        raise DefinitionError(
            f"there is no profile {name}: no {FILE} is here or in a folder above",
            hint="change to the folder of a project; `strandline init` makes one.",
            profile=name,
        )
    if name not in project.profiles:
        known = sorted(project.profiles)
        there = f"its profiles are {', '.join(known)}." if known else f"add [profile.{name}] to it."
        raise DefinitionError(
            f"there is no profile {name} in {project.file}",
            hint=near(name, known) + there,
            profile=name,
        )
    return project.profiles[name]


def _take(
    found: Profile, key: str, value: object, root: Path, lookup: Callable[[str], str | None]
) -> None:
    if key in OPTIONS:
        value = _parsed(value)
    if key in OPTIONS and isinstance(value, dict) and not _is_reference(value):
        found.values[key] = {
            each: _resolved(found, f"{key}: {each}", inner, root, lookup)
            for each, inner in value.items()
            if not _is_refused(found, f"{key}: {each}", each, inner)
        }
        return
    if key in POSTED_TO and isinstance(value, str):
        why = "is written in the file, and each reader of the file may post to it"
        found.wrong.append(f"{key} {why}; {HOW}")
        return
    if _is_refused(found, key, "", value):
        return
    resolved = _resolved(found, key, value, root, lookup)
    if key in PATHS and resolved is not None:
        if not isinstance(resolved, str):
            # Settings take paths of Python too, and would fail on a number without naming the profile.
            found.wrong.append(f"{key} is {resolved!r}, and should be a text: the name of a folder")
            return
        if "://" not in resolved:
            resolved = str(root / Path(resolved).expanduser())
    found.values[key] = resolved


def _parsed(value: object) -> object:
    """Return options that are written as a text of JSON, as a variable has them; others as they are."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _is_refused(found: Profile, where: str, name: str, value: object) -> bool:
    """Return whether a value is a secret in plain text, and note it; a number under the name of a secret is one too.

    Args:
        found: The profile.
        where: What is said of it.
        name: Its own name; empty for a setting, none of which is a secret by its name.
        value: It as it is written.
    """
    is_plain = not isinstance(value, dict) or (bool(value) and not _is_reference(value))
    if name and is_secret_name(name) and is_plain:
        found.wrong.append(f"{where} is written in the file; {HOW}")
        return True
    why = secret_in(value)
    if why:
        found.wrong.append(f"{where} {why}; {HOW}")
    return bool(why)


def _take_others(
    found: Profile,
    written: object,
    root: Path,
    lookup: Callable[[str], str | None],
    replaced: Sequence[str],
) -> None:
    if not isinstance(written, dict):
        found.wrong.append(f"{OTHERS} should be a section of names and values")
        return
    for name, value in written.items():
        if not FOREIGN.fullmatch(name):
            found.wrong.append(
                f"{OTHERS}: {name} is not a variable that belongs here; "
                "those of the store begin with AWS_, GOOGLE_ or AZURE_, those of lineage with OPENLINEAGE_, those of telemetry with OTEL_, and settings have names of their own"
            )
        elif _is_refused(found, f"{OTHERS}: {name}", name, value) or name in replaced:
            continue
        elif isinstance(value, list):
            found.wrong.append(f"{OTHERS}: {name} should be a text")
        else:
            resolved = _resolved(found, f"{OTHERS}: {name}", value, root, lookup)
            if resolved is not None:
                found.others[name] = str(resolved)


def _is_reference(value: Mapping[str, object]) -> bool:
    return bool(value) and set(value) <= set(WAYS)


def _resolved(
    found: Profile,
    where: str,
    value: object,
    root: Path,
    lookup: Callable[[str], str | None],
) -> object:
    """Return a value, or what a reference leads to."""
    if not isinstance(value, dict):
        return value
    if (
        not _is_reference(value)
        or len(value) != 1
        or not isinstance(next(iter(value.values())), str)
    ):
        found.wrong.append(f"{where} is neither a value nor a reference; {HOW}")
        return None
    ((way, named),) = value.items()
    if way == "env":
        text = lookup(named)
        if not text:
            found.wrong.append(f"{where}: the variable {named} is not set")
        return text or None
    try:
        return (root / Path(named).expanduser()).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        found.wrong.append(f"{where}: the file {named} cannot be read: {reason}")
        return None


# The values of settings, from a text of the environment or a value of TOML.
#
# They are checked here and not by pydantic: every verb reads the settings, and that library with its part for settings takes 0.22 s
# of CPU to import, a fifth of the time in which a verb has to answer.


class SecretStr:
    """A text that is printed as stars."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Take the text."""
        self._text = text

    def get_secret_value(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "SecretStr('**********')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a value of a setting may be, beside its type.

    Args:
        description: What it is for.
        pattern: The text.
        ge: The least number.
        le: The largest number.
        min_length: The fewest characters.
        max_length: The most characters.
    """

    description: str
    pattern: str | None = None
    ge: float | None = None
    le: float | None = None
    min_length: int = 0
    max_length: int | None = None


WORDS = {
    **dict.fromkeys(("true", "1", "yes", "y", "on", "t"), True),
    **dict.fromkeys(("false", "0", "no", "n", "off", "f"), False),
}


def refuse_outside(value: object, bounds: Bounds) -> None:
    """Refuse what a setting may not be.

    Raises:
        ValueError: It is that.
    """
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    if isinstance(text, str):
        _refuse_text(text, bounds)
    elif isinstance(text, int | float):
        low = -math.inf if bounds.ge is None else bounds.ge
        high = math.inf if bounds.le is None else bounds.le
        if not low <= text <= high:  # what is no number, nan, is between none
            raise ValueError(f"should be {_span(bounds)}")


def _refuse_text(text: str, bounds: Bounds) -> None:
    if len(text) < bounds.min_length:
        at_least = f"have {bounds.min_length} characters or more"
        raise ValueError(f"should {at_least if bounds.min_length > 1 else 'not be empty'}")
    if bounds.max_length is not None and len(text) > bounds.max_length:
        raise ValueError(f"should have {bounds.max_length} characters at most")
    # The dollar of Python would let an end of line pass.
    if bounds.pattern and not re.search(re.sub(r"\$$", r"\\Z", bounds.pattern), text):
        raise ValueError(f"should match {bounds.pattern}")


def _span(bounds: Bounds) -> str:
    if bounds.le is None:
        return f"{bounds.ge:g} or more"
    return f"{bounds.le:g} or less" if bounds.ge is None else f"{bounds.ge:g} to {bounds.le:g}"


def _as_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("should be a text")  # noqa: TRY004  # each mistake of a value is one kind of error
    return value


def _as_whole(value: object) -> int:
    if isinstance(value, int | str) and not isinstance(value, bool):
        with suppress(ValueError):
            return int(value)
    raise ValueError("should be a whole number")


def _as_number(value: object) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError):
            return float(value)
    raise ValueError("should be a number")


def _as_bool(value: object) -> bool:
    found = value if isinstance(value, bool) else WORDS.get(str(value).strip().lower())
    if found is None:
        raise ValueError("should be true or false")
    return found


def _as_day(value: object) -> date:
    try:
        return value if isinstance(value, date) else date.fromisoformat(_as_text(value))
    except ValueError as error:
        raise ValueError("should be a day such as 2026-01-01") from error


def _as_options(value: object) -> dict[str, str]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError("should be a JSON object of texts") from error
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError("should be a JSON object of texts")
    return found


TAKEN: dict[type, Callable[[object], object]] = {
    str: _as_text,
    SecretStr: lambda value: value if isinstance(value, SecretStr) else SecretStr(_as_text(value)),
    int: _as_whole,
    float: _as_number,
    bool: _as_bool,
    date: _as_day,
    dict: _as_options,
}
"""How a value of each type is taken."""
