"""Roles: who may read a lake, see what is masked, operate its streams, and change its rows after the fact.

They are in one file of the lake, ``_roles.toml``, for all ways to it: verbs, notebooks, SQL over JDBC, agents, pages. Without the file
who runs a program may do all, as before. A lake has them and not a project or a variable, because every program that opens the lake
finds them there, wherever it was started.

They keep people from mistakes, and those who ask a server from what is not theirs. Who may write the files of the lake may write this one,
and so needs none of its roles.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strandline.core.errors import DefinitionError

FILE = "_roles.toml"
ALL = "*"
"""The name of all who have no line of their own."""

PEOPLE, CONTACT = "people", "contact"
EXAMPLE = f'{PEOPLE} = {{ ann = ["read", "repair"], "{ALL}" = ["read"] }}'


COPY = "copy"
"""What an order is by which masked rows leave as a file; it needs no more than to read."""


class Role(StrEnum):
    """What a person or a service may do; each of the others includes to read."""

    READ = "read"
    UNMASK = "unmask"
    OPERATE = "operate"
    REPAIR = "repair"


MEANING = {
    Role.READ: "ask, masked",
    Role.UNMASK: "see what is masked, for a reason that is written down, and take original bytes away",
    Role.OPERATE: "run, start and stop; maintain, copy and publish; name moments; add users",
    Role.REPAIR: "change or delete rows after the fact, and what tables are fed from",
}


class RoleError(DefinitionError):
    """What was ordered needs a role that this person has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """The roles of a lake.

    Args:
        file: Where they are written.
        people: The roles of each; None where there is no file, and all may do all.
        changed_by: Who can change the file, as it is said to those who need it.
    """

    file: str
    people: Mapping[str, frozenset[Role]] | None = None
    changed_by: str = ""

    def of(self, who: str) -> frozenset[Role]:
        """Return the roles of a person or a service."""
        if self.people is None:
            return frozenset(Role)
        own = self.people.get(who, self.people.get(ALL, frozenset()))
        return own | {Role.READ} if own else own

    def allows(self, who: str, role: Role) -> bool:
        """Return whether a person or a service may do what needs a role."""
        return role in self.of(who)

    def refuse(self, who: str, role: Role, what: str) -> None:
        """Refuse what a person or a service may not do.

        Args:
            who: The name, as the log of orders has it.
            role: What is needed.
            what: What was ordered, as the begin of a sentence.

        Raises:
            RoleError: The role is not theirs.
        """
        if self.allows(who, role):
            return
        own = self.of(who)
        has = " and ".join(sorted(own)) if own else "none"
        raise RoleError(
            f"{what} needs the role {role} ({MEANING[role]}), and {who} has {has}",
            hint=f"the roles of this lake are in {self.file}; {self.changed_by} can change it.",
            role=str(role),
            who=who,
            file=self.file,
        )


def parsed(text: str | None, file: str, owner: str) -> Roles:
    """Return the roles that a file says.

    Args:
        text: The file's; None where there is none.
        file: Where it is.
        owner: Who can change it, unless the file says whom to ask.

    Raises:
        DefinitionError: It cannot be read, so nothing is allowed.
    """
    if text is None:
        return Roles(file=file)
    try:
        people, contact = _said(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(
            f"{file} cannot be read, so it is not known who may do what: {error}",
            hint=f"{owner} can correct it, such as: {EXAMPLE}.",
            file=file,
        ) from error
    return Roles(file=file, people=people, changed_by=contact or owner)


def _said(text: str) -> tuple[dict[str, frozenset[Role]], str]:
    """Return the roles of each, and who can change them; a ``ValueError`` says what is wrong."""
    found = tomllib.loads(text)
    if wrong := [name for name in found if name not in (PEOPLE, CONTACT)]:
        raise ValueError(f"{', '.join(wrong)} is no part of it; its parts are {PEOPLE}, {CONTACT}")
    people, contact = found.get(PEOPLE), found.get(CONTACT, "")
    if not isinstance(people, dict) or not people:
        raise ValueError(f"it has no [{PEOPLE}]")
    return {name: _roles(name, each) for name, each in people.items()}, str(contact)


def _roles(name: str, value: Any) -> frozenset[Role]:  # noqa: ANN401  # as TOML has it
    known = ", ".join(Role)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} has no list of roles; they are {known}")
    if strange := [each for each in value if each not in list(Role)]:
        raise ValueError(f"{name} has {', '.join(strange)}, which is no role; they are {known}")
    return frozenset(map(Role, value))
