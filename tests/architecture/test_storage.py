"""Files are touched behind one door: the room lake. What may touch them elsewhere in the engine is named here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT

ENGINE = ROOT / "jobs" / "strandline" / "engine"

MODULES = {"pathlib", "os", "shutil", "fcntl", "tempfile", "glob", "deltalake", "duckdb"}
"""What works on files or opens tables."""

VERBS = frozenset(
    [
        "open",
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "mkdir",
        "rmdir",
        "unlink",
        "touch",
        "glob",
        "rglob",
        "iterdir",
        "rename",
        "stat",
        "symlink_to",
        "hardlink_to",
        "is_dir",
    ]
)
"""What a path can do and a place cannot, and the ``open`` of Python."""

PROCESS = {"os", "pathlib"}

EXCEPTIONS = {
    "kafka/topic_log.py": (
        {"pathlib", "read_text"},
        "reads the certificate and the key of Kafka's client, which are in no lake and may be links, as in a pod",
    ),
    "runtime/settings.py": (
        {*PROCESS, "read_text"},
        "reads the environment; a relative folder becomes absolute; reads whom a pod works for, which is in no lake",
    ),
    "runtime/profiles.py": (
        {"pathlib", "read_text"},
        "a relative folder becomes absolute; reads secrets that a project's file names, which are in no lake",
    ),
    "runtime/spark_session.py": (
        {*PROCESS, "mkdir", "open", "read_bytes", "stat"},
        "starts the JVM, whose output, scratch files and class archive are files of this machine on any store; names jars, which are files of this machine; asks which process started it",
    ),
    "runtime/spark_on_cluster.py": (
        {*PROCESS, "read_bytes", "rglob"},
        "names jars, which are files of this machine; names what is sent to executors, which are files of this machine; makes an archive of the project's own source, which is in no lake",
    ),
    "runtime/processes.py": (
        {*PROCESS, "is_dir", "iterdir", "open", "read_text", "write_text"},
        "starts programs with a log as their output, and asks the kernel about a pid; writes the kernel's file about a pid; reads the kernel's files about a pid; asks the kernel whether the process that started it is there; names to the kernel the folders below which it may write",
    ),
    "runtime/code_files.py": (
        {
            *PROCESS,
            "glob",
            "iterdir",
            "mkdir",
            "open",
            "read_bytes",
            "rglob",
            "stat",
            "unlink",
            "write_bytes",
        },
        "reads the project's own source, which is in no lake; reads former texts of that source, out of an archive, and those of a project; keeps hashes of them beside what set-up made",
    ),
    "runtime/statements.py": (
        {"pathlib", "read_bytes"},
        "reads the project's own source, which is in no lake",
    ),
    "runtime/log_files.py": (
        {*PROCESS, "fcntl", "glob", "open", "shutil", "stat"},
        "cuts and reads logs that programs keep open, which no store can do; follows such a log, also when it is renamed; finds the last error in such a log",
    ),
    "runtime/webhook.py": ({"open"}, "opens an address, and no file"),
    "publish/unity.py": ({"open"}, "opens an address, and no file"),
}
"""Modules of other rooms, what each uses all the same, and why."""


def _uses(text: str) -> Iterator[str]:
    """Yield what a module uses of the above."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from ({each.name.partition(".")[0] for each in names} & MODULES)
            case ast.ImportFrom(module=str(module)):
                yield from ({module.partition(".")[0]} & MODULES)
            case ast.Call(func=ast.Name(id="open")):
                yield "open"
            case ast.Call(func=ast.Attribute(attr=verb)) if verb in VERBS:
                yield verb


def _elsewhere() -> Iterator[tuple[str, Path]]:
    for path in sorted(ENGINE.rglob("*.py")):
        name = str(path.relative_to(ENGINE))
        if not name.startswith("lake/"):
            yield name, path


def test_only_the_lake_touches_files_and_opens_tables() -> None:
    """An object store comes behind this door; a second one would be found when a lake is on it."""
    found = {
        f"{name}: {use}"
        for name, path in _elsewhere()
        for use in _uses(path.read_text())
        if use not in EXCEPTIONS.get(name, (set(), ""))[0]
    }

    assert not found


def test_each_exception_is_needed() -> None:
    """One that is left over would let files in again."""
    for name, (_, reason) in EXCEPTIONS.items():
        assert set(_uses((ENGINE / name).read_text())), name
        assert reason


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("from pathlib import Path", "pathlib"),
        ("import os.path", "os"),
        ("def f():\n    import duckdb", "duckdb"),
        ("from deltalake.exceptions import DeltaError", "deltalake"),
        ("open('x')", "open"),
        ("lake.root.local.glob('*')", "glob"),
        ("with file.local.open() as f: pass", "open"),
    ],
)
def test_a_way_around_is_seen(line: str, use: str) -> None:
    """Each was in some room before."""
    assert use in set(_uses(line))


def test_what_only_looks_so_is_none() -> None:
    """Places, texts and gates have verbs of similar names."""
    harmless = "lake.order.text(); found.replace('a', 'b'); gate.open_(table); lake.exists(table)"

    assert not set(_uses(harmless))
