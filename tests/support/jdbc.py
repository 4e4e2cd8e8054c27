"""Clients as dashboards are: Hive's JDBC driver, in a JVM of its own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyspark
from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway
from py4j.protocol import Py4JJavaError, get_return_value

from strandline_infra import java

JARS = Path(pyspark.__file__).parent / "jars"
OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

Row = tuple[str | None, ...]


class SqlError(Exception):
    """What the driver raised, by its own words."""


@dataclass(slots=True)
class Connection:
    """An open connection."""

    inner: Any

    def rows(self, sql: str, *, most: int = 0) -> list[Row]:
        """Run a statement and return its rows as text, at most so many if a number is given."""
        statement = self.inner.createStatement()
        try:
            with _raised():
                statement.setMaxRows(most)
                has_rows = statement.execute(sql)
                return _rows(statement.getResultSet()) if has_rows else []
        finally:
            statement.close()

    def objects(self, sql: str) -> list[tuple[object, ...]]:
        """Return the rows of a query as Python has them; moments without their zone."""
        statement = self.inner.createStatement()
        try:
            with _raised():
                return _rows(statement.executeQuery(sql), "getObject", _of_java)
        finally:
            statement.close()

    def value(self, sql: str) -> str | None:
        """Return the one value of an answer."""
        ((found,),) = self.rows(sql)
        return found

    def metadata(self, call: str, *arguments: object) -> list[Row]:
        """Return the rows of a call of ``DatabaseMetaData``, such as getTables."""
        with _raised():
            return _rows(getattr(self.inner.getMetaData(), call)(*arguments))

    def close(self) -> None:
        """Close it."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver in its JVM."""

    gateway: JavaGateway

    @contextmanager
    def connected(self, url: str, user: str, password: str) -> Iterator[Connection]:
        """Connect, and close at the end."""
        with _raised():
            inner = self.gateway.jvm.java.sql.DriverManager.getConnection(url, user, password)
        connection = Connection(inner)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def driver() -> Iterator[Driver]:
    """Start the JVM of the driver, and end it."""
    home = java.java_home()
    assert home is not None
    port, process = launch_gateway(
        classpath=f"{JARS}/*",
        javaopts=list(OPTIONS),
        java_path=str(home / "bin" / "java"),
        die_on_exit=True,
        redirect_stderr=subprocess.DEVNULL,
        redirect_stdout=subprocess.DEVNULL,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    # PySpark's own would look for the exceptions of this JVM in that of Spark, where a test before has started one.
    of_spark, java_gateway.get_return_value = java_gateway.get_return_value, get_return_value
    try:
        yield Driver(gateway)
    finally:
        java_gateway.get_return_value = of_spark
        gateway.shutdown()
        process.stdin.close()
        process.wait(20)


def beeline(url: str, user: str, password: str, sql: str) -> "subprocess.CompletedProcess[str]":
    """Run one statement with Hive's own program, which PySpark brings."""
    home = java.java_home()
    command = [
        *(str(home and home / "bin" / "java"), *OPTIONS, "-cp", f"{JARS}/*"),
        *("org.apache.hive.beeline.BeeLine", "-u", url, "-n", user, "-p", password),
        *("--silent=true", "--outputformat=csv2", "-e", sql),
    ]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
    )


@contextmanager
def _raised() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise SqlError(str(error.java_exception.getMessage())) from error


def _rows(found: Any, get: str = "getString", as_ours: Any = lambda value: value) -> list[Any]:  # noqa: ANN401  # py4j's objects have no types
    columns = range(1, found.getMetaData().getColumnCount() + 1)
    rows = []
    while found.next():
        rows.append(tuple(as_ours(getattr(found, get)(each)) for each in columns))
    return rows


def _of_java(value: object) -> object:
    if not isinstance(value, JavaObject):
        return value
    text = str(value.toString())
    return (date if len(text) == len("2026-11-01") else datetime).fromisoformat(text)
