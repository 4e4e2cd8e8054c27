"""The public interface of the engine, under its own name: what jobs/api.py promises, and nothing else."""

from jobs.api import *  # noqa: F403  # __all__ is the list, and a test pins it
from jobs.api import __all__ as __all__  # noqa: PLC0414  # as type checkers want a name passed on
