"""Packages that not every project needs: which extra of the wheel brings each, and what is missing without it.

The one place that knows it: the command line turns a module that is not there into the command that installs it, ``doctor`` names
what a project uses and lacks, set-up installs it, and a test compares with ``pyproject.toml``.
"""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """An extra.

    Args:
        modules: What Python imports of its packages; the first shows whether it is installed.
        for_what: What is not there without it.
    """

    modules: tuple[str, ...]
    for_what: str


EXTRAS = {
    "alerts": Extra(modules=("sigma",), for_what="rules in Sigma, alerts and their delivery"),
    "dagster": Extra(
        modules=("dagster", "dagster_webserver", "dagster_pyspark", "sqlalchemy"),
        for_what="Dagster's pages, schedules, checks and sensors",
    ),
    "lineage": Extra(
        modules=("openlineage",), for_what="events for a catalog of lineage, by OpenLineage"
    ),
    "notebook": Extra(
        modules=("jupyterlab", "ipykernel", "nbclient", "nbformat"),
        for_what="notebooks over a lake",
    ),
    "polars": Extra(modules=("polars",), for_what="tables as frames of Polars"),
    "postgres": Extra(
        modules=("psycopg2", "dagster_postgres"),
        for_what="Dagster's history in PostgreSQL, static tables from there, rows that leave for there",
    ),
    "quality": Extra(
        modules=("great_expectations",), for_what="Data Docs, the pages of Great Expectations"
    ),
    "registry": Extra(
        modules=("fastavro", "jsonschema_rs"),
        for_what="payloads whose schemas are in a registry",
    ),
}
"""Each extra of a user by its name; ``dev`` has all of them, and the tools."""

IMAGE = ("alerts", "dagster", "lineage", "postgres", "quality")
"""What an image has, in which everything runs that a cluster runs."""

BY_MODULE = {module: name for name, extra in EXTRAS.items() for module in extra.modules}


def is_installed(extra: str) -> bool:
    """Return whether the packages of an extra are there; none of them is imported."""
    return all(importlib.util.find_spec(module) is not None for module in EXTRAS[extra].modules)


def of_module(name: str) -> str | None:
    """Return the extra that brings a module; None for one of another origin."""
    return BY_MODULE.get(name.partition(".")[0])


def requirement(extras: Iterable[str]) -> str:
    """Return what pip installs."""
    return f"strandline[{','.join(sorted(extras))}]"


def command(*extras: str) -> str:
    """Return what a person types to install some extras."""
    return f"pip install '{requirement(extras)}'"


def hint(extra: str) -> str:
    """Return what an error says that is about a missing extra."""
    return f"install the extra: {command(extra)}."
