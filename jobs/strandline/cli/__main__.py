"""The program ``strandline``, and ``python -m strandline.cli``: what a verb does not use is not loaded.

Where a hook of git waits, nothing but that verb is imported. Of a verb that answers a question, libraries that take a tenth of a second
each are loaded when something of them is first asked for: with three hundred tables most answers come from logs alone, in less time
than Arrow, DuckDB, delta-rs and Kafka's client take to load.
"""

import atexit
import gc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

LATER = frozenset(
    {
        *("pyarrow", "pyarrow.compute", "pyarrow.parquet", "duckdb"),
        *("deltalake", "deltalake.exceptions", "deltalake.table"),
        *("confluent_kafka", "confluent_kafka.admin"),
        *("google.protobuf.descriptor_pb2", "google.protobuf.message"),
    }
)
"""Libraries that are loaded when something of them is asked for; a module of ours that imports a name of one loads it."""

ASKS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        (
            *("tables", "ledger", "cost", "radar", "why", "who", "history", "report", "status"),
            *("probe", "logs", "gate", "preflight", "migrate", "drift", "expire", "doctor"),
            *("explain", "diff", "query", "compare"),
        ),
        frozenset(),
    ),
    "moments": frozenset({"", "show"}),
    "quarantine": frozenset({"list", "show"}),
    "models": frozenset({"list", "show"}),
    "rules": frozenset({"list", "explain"}),
    "catalog": frozenset({"status"}),
    "contract": frozenset({"diff"}),
    "serve": frozenset({"users"}),
}
"""The verbs that answer questions; of a verb with verbs of its own those, and the empty text where it answers by itself."""

WORKS = frozenset({"--go", "--try", "--undo", "--open", "--apply"})
"""Options by which one of them does more than answer: then several threads work, and all is loaded before they begin."""

_LOADING = RLock()


class Later(ModuleType):
    """A library that is not loaded yet; who asks for something of it while another thread loads it waits."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # whatever the library has
        with _LOADING:
            _load(self)
        own = vars(self)
        if name in own:
            return own[name]
        if "__getattr__" in own:  # a module may answer for names that it has not
            return own["__getattr__"](name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


def _load(module: ModuleType) -> None:
    """Load a library after those that it is a part of; nothing of one that is loaded, or is being loaded by this thread."""
    if _waiting(module) is None:
        return
    above = sys.modules.get(module.__name__.rpartition(".")[0])
    if above is not None:
        _load(above)
    waiting, spec = _waiting(module), module.__spec__
    if waiting is None or spec is None:  # one of those above has asked for something of it
        return
    spec.loader = module.__loader__ = waiting.real
    try:
        waiting.real.exec_module(module)
    except BaseException:
        spec.loader = module.__loader__ = waiting  # who asks next finds the same fault
        raise
    module.__class__ = ModuleType


def _waiting(module: ModuleType) -> Any:  # noqa: ANN401  # None, or what waits: no loader by its class
    loader: Any = None if module.__spec__ is None else module.__spec__.loader
    return loader if isinstance(loader, _Waiting) else None


class _Waiting:
    """Makes a module and leaves it empty."""

    def __init__(self, real: Any) -> None:  # noqa: ANN401  # a loader of any kind
        self.real = real

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python make the module, and look at what it has."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty: it is loaded when it is asked for something."""
        module.__class__ = Later


class _Finder:
    """Finds these libraries where Python does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where one is; None of all others."""
        found = PathFinder.find_spec(fullname, path, target) if fullname in LATER else None
        if found is not None and found.loader is not None:
            waiting: Any = _Waiting(found.loader)
            found.loader = waiting
        return found


def load_later(words: Sequence[str]) -> None:
    """Load some libraries later, where what was typed is a question."""
    if is_question(words):
        sys.meta_path.insert(0, _Finder())


def is_question(words: Sequence[str]) -> bool:
    """Return whether what was typed asks, and does nothing else."""
    plain = [
        at
        for at, word in enumerate(words)
        if not word.startswith("-") and (at == 0 or words[at - 1] != "--profile")
    ]
    if not plain or words[plain[0]] not in ASKS or not WORKS.isdisjoint(words):
        return False
    own, after = ASKS[words[plain[0]]], "".join(words[plain[0] + 1 : plain[0] + 2])
    return not own or ("" if after.startswith("-") else after) in own


def _keep() -> None:
    """Keep the hashes of code that were made, for the next verb that needs them; nothing where none was asked for."""
    code_files = sys.modules.get("strandline.engine.runtime.code_files")
    if code_files is not None:
        code_files.keep()


def main() -> None:
    """Run what was typed."""
    # Nothing of what is imported is garbage; to look for it again and again takes a tenth of a short answer.
    gc.disable()
    words = sys.argv[1:]
    if words[:1] == ["lint"] and not any(each.startswith("-") for each in words):
        # All of the command line takes half a second to import, and Spark's frames with it.
        from strandline.operate.lint import hook  # noqa: PLC0415  # as above

        if (code := hook(words[1:])) is not None:
            sys.exit(code)
    load_later(words)
    atexit.register(_keep)
    from strandline.cli.main import main as run  # noqa: PLC0415  # as above

    run()


if __name__ == "__main__":
    main()
