"""The errors, named for what the reader does next.

    LakeError
    ├── DefinitionError   fix the code or the setting; trying again changes nothing
    ├── TransientError    try again; the world outside was not ready
    │   └── ReplacedError begin anew; another process does this one's work
    └── DataError         a person must look; the data contradicts itself
        └── DamagedError  a file of one table is torn, or closed to this user; the other tables go on

Every error names the request and the reason why it fails, carries its facts as fields for logs and
interfaces, and ends with a hint. The command line prints exactly that and exits non-zero.
"""

from typing import ClassVar


class LakeError(Exception):
    """A request cannot be carried out."""

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "unforeseen"

    def __init__(self, message: str, *, hint: str, **fields: object) -> None:
        """Keep the sentence, the hint and the facts apart."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.fields = fields

    def __str__(self) -> str:
        """Return the sentence, a blank line, and the hint."""
        return f"{self.message}\n\nhint: {self.hint}"


class DefinitionError(LakeError):
    """The code or a setting asks for something impossible."""

    exit_code: ClassVar[int] = 2
    kind: ClassVar[str] = "definition"


class TransientError(LakeError):
    """Something outside is not ready; the same call may work later."""

    exit_code: ClassVar[int] = 3
    kind: ClassVar[str] = "transient"


class ReplacedError(TransientError):
    """Another process has taken this one's place: to wait where one is helps nothing, to begin anew does once that is free."""

    kind: ClassVar[str] = "fenced"


class DataError(LakeError):
    """The data contradicts itself, and a person must decide."""

    exit_code: ClassVar[int] = 4
    kind: ClassVar[str] = "data"


class DamagedError(DataError):
    """A file of one table is torn, or may not be read; it is that table's, and no reason to end another."""
