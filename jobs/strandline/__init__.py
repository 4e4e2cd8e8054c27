"""The public interface of the engine, under its own name: what jobs/strandline/api.py promises, and nothing else."""

from typing import TYPE_CHECKING

from strandline import api

from strandline.api import __all__ as __all__  # as type checkers want a name passed on
from strandline.sql_import import install as _install

if TYPE_CHECKING:
    from strandline.api import *  # noqa: F403  # __all__ is the list, and a test pins it

_install()


def __getattr__(name: str) -> object:
    # A star at run time would ask for every name, and import all that they need.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(api, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
