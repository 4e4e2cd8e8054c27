"""The command line inside this process: the same words, the same answer, and a fiftieth of the time of a new Python.

What is proven by a process of its own (signals, locks, a terminal, a Spark that does not start) is typed with
tests/cli/typed.py. A verb that needs Spark gets the one of the suite, which outlives it.
"""

import copy
import io
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from unittest.mock import patch

from jsonschema import Draft202012Validator
from pyspark.sql import SparkSession

from strandline.cli import main, screen
from strandline.cli.answers import ANSWERS, schema
from strandline.engine.runtime import spark_session
from tests.cli.typed import ENVIRONMENT, Answer
from tests.support import engine


def strandline(*words: object, env: Mapping[str, str] | None = None) -> Answer:
    """Run the program to its end."""
    out, err = io.StringIO(), io.StringIO()
    with (
        _as_started([str(word) for word in words], {**ENVIRONMENT, **(env or {})}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main.main()
            code: int | str | None = 0
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int), code
    judge([str(word) for word in words], out.getvalue())
    return Answer(code, out.getvalue(), err.getvalue())


def judge(words: Sequence[str], printed: str) -> None:
    """Judge an answer for programs by the schema of its verb: a whole one, or each line of one that is in lines.

    Raises:
        ValidationError: It is not as it is declared.
    """
    if "--json" not in words or "--to" in words or not printed:  # the answer is in a file
        return
    for name in (" ".join(words[:2]), words[0]):
        if name in ANSWERS:
            for each in _records(printed):
                _judge_of(name).validate(each)
            return


@cache
def _judge_of(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema(name))


def _records(printed: str) -> list[object]:
    try:
        return [json.loads(printed)]
    except ValueError:
        return [json.loads(line) for line in printed.splitlines()]


def succeeded(*words: object, env: Mapping[str, str] | None = None) -> Answer:
    """Run the program and see that it succeeded."""
    return strandline(*words, env=env).succeeded()


@contextmanager
def _as_started(words: list[str], environment: Mapping[str, str]) -> Iterator[None]:
    """Give the program what a new process would have, and leave nothing of it behind."""
    app = copy.copy(main.app)
    app.registered_commands, app.registered_groups = [], []
    handlers = {name: signal.getsignal(name) for name in main.SIGNALS}
    log_handlers = list(logging.getLogger().handlers)
    nothing = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  # closed below
    try:
        with (
            nothing,
            patch.object(main, "app", app),
            patch.object(screen.OUT, "_width", screen.ENDLESS),
            patch.object(sys, "argv", ["strandline", *words]),
            # Where a program is a module of a package, as pytest is, click would name it so.
            patch.object(sys.modules["__main__"], "__package__", "", create=True),
            patch.object(sys, "stdin", nothing),
            patch.dict(os.environ, environment, clear=True),
            patch.object(spark_session, "start", lambda *_, **__: engine.spark()),
            patch.object(SparkSession, "stop", lambda _: None),
            patch.object(main, "leave", sys.exit),
        ):
            yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)
        logging.getLogger().handlers[:] = log_handlers
