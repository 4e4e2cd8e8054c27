"""Profiles: named sets of settings in a project's ``strandline.toml``, such as those of ``dev`` and of ``prod``.

A variable of the environment comes before a profile, a profile before the defaults. A secret is only named, as
``{ env = "NAME" }`` or ``{ file = "path" }``: the file is kept in a repository. What a variable replaces is not resolved, so the
secrets of a profile need not be where they are not asked for.

All mistakes of a profile are found together, each with what to change.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jobs.core.errors import DefinitionError
from jobs.core.project import FILE, Project, near

OTHERS = "environment"
"""The part of a profile with variables that other programs' makers defined: where the store is, its keys, the receiver of lineage."""
FOREIGN = re.compile(r"(?:AWS|OPENLINEAGE)_\w+")
PATHS = ("lake", "rules")
"""Relative ones begin at the project's folder, wherever the program is started."""
SECRET_NAME = re.compile(
    r"password|passphrase|secret|token|jaas|credential|private|key\.pem", re.IGNORECASE
)
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
    if isinstance(value, dict) and not _is_reference(value):
        resolved = {}
        for each, inner in value.items():
            if SECRET_NAME.search(each) and isinstance(inner, str):
                found.wrong.append(f"{key}: {each} is written in the file; {HOW}")
            else:
                resolved[each] = _resolved(found, f"{key}: {each}", inner, root, lookup)
        found.values[key] = resolved
        return
    plain = _plain_secret(key, value)
    if plain:
        found.wrong.append(f"{key} {plain}; {HOW}")
        return
    resolved_value = _resolved(found, key, value, root, lookup)
    if key in PATHS and isinstance(resolved_value, str) and "://" not in resolved_value:
        resolved_value = str(root / Path(resolved_value).expanduser())
    found.values[key] = resolved_value


def _plain_secret(key: str, value: object) -> str:
    """Return what is secret in a plain value; empty if nothing is."""
    if not isinstance(value, str):
        return ""
    if key == "webhook":
        return "is written in the file, and each reader of the file may post to it"
    try:
        password = urlsplit(value).password
    except ValueError:
        return ""
    return "has a password in its address" if password else ""


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
                "those of the store begin with AWS_, those of lineage with OPENLINEAGE_, and settings have names of their own"
            )
        elif isinstance(value, str) and (SECRET_NAME.search(name) or _plain_secret("", value)):
            found.wrong.append(f"{OTHERS}: {name} is written in the file; {HOW}")
        elif name not in replaced:
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
