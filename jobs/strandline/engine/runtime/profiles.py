"""Profiles: named sets of settings in a project's ``strandline.toml``, such as those of ``dev`` and of ``prod``.

A variable of the environment comes before a profile, a profile before the defaults. A secret is only named, as
``{ env = "NAME" }`` or ``{ file = "path" }``: the file is kept in a repository. What a variable replaces is not resolved, so the
secrets of a profile need not be where they are not asked for.

All mistakes of a profile are found together, each with what to change.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
POSTED_TO = ("webhook", "alarms")
"""Secrets as a whole: who knows one may post to it."""
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
