"""The public interface is the list that was read in review: names, arguments, members.

Write it anew with ``python -m tests.core.test_api`` and read the difference: within a major version lines are only added,
or get an argument with a default.
"""

import ast
import inspect
import subprocess
import sys
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import GenericAlias

import strandline
from strandline import api

GOLDEN = Path(__file__).with_name("api.txt")


def listed() -> str:
    """Return a line for each name."""
    return "".join(f"{line}\n" for name in sorted(api.__all__) for line in described(name))


def described(name: str) -> list[str]:
    """Return what a project may rely on about a name."""
    value = getattr(api, name)
    if inspect.isclass(value) and issubclass(value, Enum):
        return [f"{name}: {', '.join(each.name for each in value)}"]
    if is_dataclass(value) and inspect.isclass(value):
        needed = [f"{each.name}{_default(name, each.name)}" for each in fields(value) if each.init]
        return [f"{name}({', '.join(needed)})"]
    if inspect.isclass(value) and issubclass(value, Exception):
        return [f"{name}: {value.__mro__[1].__name__}, exit code {value.exit_code}"]  # type: ignore[attr-defined]
    if inspect.isclass(value):
        named_tuple = getattr(value, "_fields", ())
        return [
            f"{name}({', '.join(named_tuple)})" if named_tuple else f"{name}: {_methods(value)}"
        ]
    if callable(value) and not isinstance(value, GenericAlias):
        named = inspect.signature(value).parameters.values()
        return [f"{name}({', '.join(_argument(each) for each in named)})"]
    return [f"{name}: {value if isinstance(value, GenericAlias) else type(value).__name__}"]


def _default(name: str, argument: str) -> str:
    found = inspect.signature(getattr(api, name)).parameters[argument]
    return "" if found.default is inspect.Parameter.empty else "="


def _methods(value: type) -> str:
    """Return the methods and values of an object that a project is given and does not make."""
    methods = {each: found for each, found in vars(value).items() if not each.startswith("_")}
    return ", ".join(
        f"{each}({', '.join([*inspect.signature(found).parameters][1:])})"
        if inspect.isfunction(found)
        else each
        for each, found in methods.items()
    )


def _argument(each: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(
        each.kind, ""
    )
    only = "" if each.kind is not inspect.Parameter.KEYWORD_ONLY else "only "
    return f"{only}{star}{each.name}{'' if each.default is inspect.Parameter.empty else '='}"


def test_the_interface_is_the_one_that_was_promised() -> None:
    """A name that goes, or an argument that is new and needed, breaks the projects of others."""
    assert listed() == GOLDEN.read_text()


def test_the_name_strandline_leads_to_it() -> None:
    """In a clone as in a wheel: every promised name, and the same values."""
    assert strandline.__all__ == api.__all__
    assert all(getattr(strandline, name) is getattr(api, name) for name in api.__all__)


def test_a_name_comes_from_where_type_checkers_are_led_to() -> None:
    """The names are imported when they are asked for; the list of where they are is written twice."""
    tree = ast.parse(Path(api.__file__).read_text())
    block = next(each for each in tree.body if isinstance(each, ast.If))
    imports = [each for each in block.body if isinstance(each, ast.ImportFrom)]

    seen = {str(each.module): tuple(name.name for name in each.names) for each in imports}

    assert seen == api._HOMES
    assert sorted(name for names in seen.values() for name in names) == sorted(api.__all__)


def test_importing_it_imports_nothing_that_was_not_asked_for() -> None:
    """A table's module pays for what it names: Delta's reader and DuckDB took a second."""
    script = (
        "import sys; from strandline import Record, Topic;"
        "heavy = {'duckdb', 'pyarrow', 'deltalake', 'confluent_kafka', 'pandas'};"
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


if __name__ == "__main__":
    GOLDEN.write_text(listed())
