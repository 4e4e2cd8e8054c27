"""Write a stream's log as records, by structlog.

Why structlog and not the standard library's logging: a record is its event with keys and values, and a logger is a
value with a list of functions. With logging the same takes a formatter of our own, a handler, a name in a global
tree, and figures in ``extra``, which must not have the names of logging's own attributes. Dagster installs structlog
in any case. Its import takes a third of a second, so no other verb than ``stream`` imports this module.
"""

from collections.abc import Callable, MutableMapping
from datetime import datetime
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger

from strandline.core.errors import LakeError
from strandline.engine.runtime.log_files import as_text
from strandline.engine.runtime.outage import first_line

Event = MutableMapping[str, Any]

ORDER = ("time", "level", "event", "table", "tables", "batch")
"""The keys with which a record begins."""

MOST_OF_A_TRACEBACK = 20_000
"""Characters of its beginning, and as many of its end: Spark adds whole plans and the stack of the JVM."""


def logger(
    write: Callable[[str], None], clock: Callable[[], datetime], *, as_json: bool
) -> FilteringBoundLogger:
    """Return a logger that writes each record as a line of JSON, or as text.

    An error that is passed as ``exc_info`` becomes its message, hint, name and facts, and its traceback when it was
    not foreseen.
    """
    found: FilteringBoundLogger = structlog.wrap_logger(
        _Lines(write),
        processors=[
            structlog.processors.add_log_level,
            _stamp(clock),
            _explain,
            structlog.processors.format_exc_info,
            _shorten,
            *(_JSON_LINE if as_json else (_as_text,)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    return found


class _Lines:
    """Receives what structlog has made of each record."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = write


def _stamp(clock: Callable[[], datetime]) -> structlog.typing.Processor:
    def stamp(_logger: object, _method: str, record: Event) -> Event:
        record["time"] = clock().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return record

    return stamp


def _explain(_logger: object, _method: str, record: Event) -> Event:
    error = record.get("exc_info")
    if isinstance(error, LakeError):
        del record["exc_info"]
        facts = {"message": error.message, "hint": error.hint, "fields": error.fields}
    elif isinstance(error, BaseException):
        facts = {"message": f"{type(error).__name__}: {first_line(error)}"}
    else:
        return record
    kind = error.kind if isinstance(error, LakeError) else LakeError.kind
    for name, value in {**facts, "error": type(error).__name__, "kind": kind}.items():
        record.setdefault(name, value)
    return record


def _shorten(_logger: object, _method: str, record: Event) -> Event:
    trace = record.get("exception", "")
    left_out = len(trace) - 2 * MOST_OF_A_TRACEBACK
    if left_out > 0:
        begin, end = trace[:MOST_OF_A_TRACEBACK], trace[-MOST_OF_A_TRACEBACK:]
        record["exception"] = f"{begin}\n… {left_out:,} characters are left out …\n{end}"
    return record


def _as_text(_logger: object, _method: str, record: Event) -> str:
    return str(as_text(record))


def _ordered(_logger: object, _method: str, record: Event) -> Event:
    first = {name: record[name] for name in ORDER if name in record}
    return {**first, **record}


_JSON_LINE = (
    _ordered,
    structlog.processors.JSONRenderer(default=str, ensure_ascii=False, skipkeys=True),
)
