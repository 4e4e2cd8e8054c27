"""Who may ask the SQL server, and who of them sees sensitive columns.

A file beside the lake's logs has a salted hash of each password (PBKDF2, which Java and Python both have). The server reads it anew
when it has changed, so a user who is removed is refused at once (infra/strandline_infra/spark/server/Users.scala).
"""

import hashlib
import json
import re
import secrets
import stat
from contextlib import AbstractContextManager
from typing import Any

from strandline.core.errors import DefinitionError
from strandline.engine.storage.file_lock import hold
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.place import Place

ROUNDS = 300_000
"""Some 0.1 s of one core for each guess; the server does it once a user and remembers."""
SHORTEST = 8
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def place_of(lake: Lake) -> Place:
    """Return the file."""
    return lake.near / "_serve" / "users.json"


def users(lake: Lake) -> dict[str, dict[str, Any]]:
    """Return the users by name; none where none was added."""
    text = place_of(lake).text()
    return {} if text is None else dict(json.loads(text))


def refuse_without_users(lake: Lake) -> None:
    """Refuse a lake without users.

    Raises:
        DefinitionError: There are no users.
    """
    if not users(lake):
        raise DefinitionError(
            f"no user may ask {lake.root} over JDBC yet",
            hint="`strandline serve add-user NAME` asks for a password.",
        )


def add(lake: Lake, name: str, password: str, *, unmasked: str | None = None) -> None:
    """Add a user, or give one another password and role.

    Args:
        lake: The lake.
        name: The user's name.
        password: The password, of which only a hash is kept.
        unmasked: Why the user sees sensitive columns; None for one who does not.

    Raises:
        DefinitionError: The name, the password or the reason cannot be one.
    """
    if not NAME.fullmatch(name):
        raise DefinitionError(
            f"{name!r} is no name of a user",
            hint="letters, digits and . _ @ - are allowed, at most 64.",
        )
    if len(password) < SHORTEST:
        raise DefinitionError(
            f"a password has {SHORTEST} characters or more", hint="choose a longer one."
        )
    if unmasked is not None and not unmasked.strip():
        raise DefinitionError(
            "sensitive columns are shown for a reason only",
            hint='give the reason: --unmasked "fraud team"',
        )
    salt = secrets.token_bytes(16)
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    user = {"salt": salt.hex(), "hash": digest.hex(), "rounds": ROUNDS, "unmasked": unmasked}
    with _alone(lake):
        _write(lake, {**users(lake), name: user})


def remove(lake: Lake, name: str) -> None:
    """Remove a user.

    Raises:
        DefinitionError: There is none of this name.
    """
    with _alone(lake):
        known = users(lake)
        if name not in known:
            raise DefinitionError(
                f"there is no user {name}",
                hint="the users are " + (", ".join(known) or "none") + ".",
            )
        _write(lake, {each: user for each, user in known.items() if each != name})


def _alone(lake: Lake) -> AbstractContextManager[None]:
    """Let one process at a time read the users and write them: of two that were added at once one was lost."""
    return hold(place_of(lake).parent / "users.lock")


def _write(lake: Lake, known: dict[str, dict[str, Any]]) -> None:
    place_of(lake).parent.make().local.chmod(stat.S_IRWXU)  # a hash can be guessed at
    place_of(lake).put(json.dumps(known, indent=1))
