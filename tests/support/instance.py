"""An instance of Dagster that lives for a test and leaves nothing behind."""

import atexit

from dagster import DagsterInstance


def ephemeral() -> DagsterInstance:
    """Return one; its folder is removed at the end, and not whenever Python finds the time, which would be a warning."""
    instance = DagsterInstance.ephemeral()
    atexit.register(instance.dispose)
    return instance
