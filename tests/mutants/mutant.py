"""A fault that a change could put into the engine, and the tests that must notice it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault.

    Args:
        what: What it breaks.
        file: The module, from the project's root.
        old: Text that occurs there once.
        new: What is put in its place.
        tests: What must fail: files, or tests in files.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
