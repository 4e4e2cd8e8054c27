"""What a target does, and the one that is a function of the user's."""

import base64
from collections.abc import Mapping, Sequence
from typing import Protocol

import orjson

from strandline.core.errors import DataError, LakeError, TransientError
from strandline.engine.publish.books import Position
from strandline.engine.publish.declared import Change, Function

OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS

Refused = Mapping[str, str]
"""The changes that a target does not take as they are: by id the reason."""


class Target(Protocol):
    """Where changes go: some are offered, then they are kept together with the position after them, or neither is there."""

    def begin(self) -> Position | None:
        """Connect, and return the position that the target has kept itself; None where it has none."""

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:
        """Send changes, of which nothing counts before ``keep``.

        Args:
            changes: The changes, in their order; never two of a key in one version.
            is_first: Whether they are the first of all rows of the table, which are sent anew.
            is_last: Whether they are the last of these: what the target had before and none of them replaced is gone.
        """

    def keep(self, place: Position) -> None:
        """Make what was offered count, with the position after it."""

    def close(self) -> None:
        """Let go of what was offered and not kept, and of the connection."""

    @property
    def loses_positions(self) -> bool:
        """Return whether a target that works may lose the position that it kept, so that the lake's is as good."""


class ToFunction:
    """A function, which may get a change again after a kill, with the same id. The lake alone knows how far it has got."""

    loses_positions = True

    def __init__(self, function: Function) -> None:
        """Take the function."""
        self._function = function

    def begin(self) -> Position | None:
        """Return that a function keeps no position."""
        return None

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:  # noqa: ARG002  # of the protocol
        """Call the function.

        Raises:
            TransientError: It fails.
            DataError: It refuses a change that it was not given.
        """
        try:
            answer: object = self._function(tuple(changes)) if changes else None
        except LakeError:
            raise
        except Exception as error:
            raise TransientError(
                f"the function failed: {type(error).__name__}: {error}",
                hint="it gets the same changes again, with the same ids; let it return the ids that it refuses with the reasons.",
            ) from error
        refused = {} if answer is None else answer
        if not isinstance(refused, Mapping) or not refused.keys() <= {each.id for each in changes}:
            raise DataError(
                f"the function returned {str(refused)[:200]}, which names no changes that it was given",
                hint="let it return nothing, or a dictionary from the id of each change that it refuses to the reason.",
            )
        return {id_: str(reason) for id_, reason in refused.items()}

    def keep(self, place: Position) -> None:
        """Do nothing: the lake keeps it."""

    def close(self) -> None:
        """Do nothing."""


def as_json(value: object) -> bytes:
    """Return a value as JSON that loses nothing: decimals are texts, moments in UTC, bytes in base64."""
    try:
        return orjson.dumps(value, default=_plain, option=OPTIONS)
    except TypeError:  # keys of a map that are decimals or bytes
        return orjson.dumps(_named(value), default=_plain, option=OPTIONS)


def _named(value: object) -> object:
    """Return a value whose mappings have texts as keys."""
    if isinstance(value, Mapping):
        return {
            name if isinstance(name, str) else _plain(name): _named(each)
            for name, each in value.items()
        }
    return [*map(_named, value)] if isinstance(value, list | tuple) else value


def _plain(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)
