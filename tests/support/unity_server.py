"""A double of Unity Catalog's REST interface on loopback: its own server cannot be had from a registry.

It holds to what its makers publish (api/all.yaml and api/delta.yaml of 0.6): paths, fields that are required or known, codes of errors. Where
the two say nothing it does as their server's code: names, a location's form, properties of 255 characters, texts of types in small letters.
Of the interface it has what a publisher or a reader of external tables asks; two readers of another making agree with it
(Polars' client, and DuckDB's extension unity_catalog).
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from pyspark.sql.types import DecimalType, StructField

from strandline_infra.programs import HOST

Facts = dict[str, Any]

API = "/api/2.1/unity-catalog"
NAME = re.compile(r"[a-zA-Z0-9_@-]{1,255}")
PROPERTY = 255
CATALOG = "lake"

KNOWN = {
    "CreateSchema": (
        {"name", "catalog_name"},
        {"comment", "properties", "storage_root"},
    ),
    "CreateTable": (
        {"name", "catalog_name", "schema_name", "table_type", "columns"},
        {
            *("data_source_format", "storage_location", "comment", "properties"),
            *("view_definition", "view_dependencies"),
        },
    ),
    "ColumnInfo": (
        set[str](),
        {
            *("name", "type_text", "type_json", "type_name", "type_precision", "type_scale"),
            *("type_interval_type", "position", "comment", "nullable", "partition_index"),
        },
    ),
    "GenerateTemporaryTableCredential": ({"table_id", "operation"}, set[str]()),
    "DeltaUpdateTableRequest": ({"requirements", "updates"}, set[str]()),
}
"""Of each kind of request the fields that it must have, and those that it may."""

KINDS = {
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP"),
    *("TIMESTAMP_NTZ", "STRING", "BINARY", "DECIMAL", "INTERVAL", "ARRAY", "STRUCT", "MAP"),
    *("VARIANT", "CHAR", "NULL", "USER_DEFINED_TYPE", "TABLE_TYPE"),
}
ACTIONS = {
    "set-columns": "columns",
    "set-partition-columns": "partition-columns",
    "set-properties": "updates",
    "remove-properties": "removals",
    "set-table-comment": "comment",
}
"""Changes of a table, each with the field that it must have."""

CODES = {
    "INVALID_ARGUMENT": 400,
    "TABLE_ALREADY_EXISTS": 400,
    "SCHEMA_ALREADY_EXISTS": 400,
    "CATALOG_NOT_FOUND": 404,
    "SCHEMA_NOT_FOUND": 404,
    "TABLE_NOT_FOUND": 404,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "INTERNAL": 500,
    "NOT_FOUND": 404,
    "UPDATE_REQUIREMENT_CONFLICT": 409,
}
AS_DELTA = {
    "INVALID_ARGUMENT": "InvalidParameterValueException",
    "TABLE_NOT_FOUND": "NoSuchTableException",
    "SCHEMA_NOT_FOUND": "NoSuchSchemaException",
    "CATALOG_NOT_FOUND": "NoSuchCatalogException",
    "UPDATE_REQUIREMENT_CONFLICT": "UpdateRequirementConflictException",
    "INTERNAL": "InternalServerErrorException",
}
CAMEL = {
    "element-type": "elementType",
    "contains-null": "containsNull",
    "key-type": "keyType",
    "value-type": "valueType",
    "value-contains-null": "valueContainsNull",
}


class RefusedError(Exception):
    """An error as the interface has it."""

    def __init__(self, code: str, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class UnityServer:
    """The double, and what it was asked.

    Args:
        token: The only one that it takes; it takes any, and none, when empty.
        has_updates: Whether it changes tables in place, as a server of 0.5 and later does.
        credentials: What a reader is given for a store.
    """

    token: str = ""
    has_updates: bool = True
    credentials: Mapping[str, str] = field(default_factory=dict)
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Each request: its method, its path and how it was answered."""
    answers: list[tuple[int, bytes]] = field(default_factory=list)
    """What is answered instead, whatever is asked, as another server or one at fault would."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """More headers of each answer."""
    silence: float = 0.0
    """Seconds that each answer waits."""
    address: str = ""

    @property
    def writes(self) -> list[str]:
        """Return the requests that change something and were taken."""
        return [
            each
            for each in self.asked
            if not each.startswith("GET ") and each.endswith(" 200") and "credentials" not in each
        ]

    def answer(self, method: str, path: str, token: str, body: bytes) -> tuple[int, bytes]:
        """Answer a request."""
        is_delta = path.startswith(f"{API}/delta/")
        try:
            self._let_in(token)
            found = self._route(method, path, json.loads(body) if body else None)
        except RefusedError as error:
            code = CODES[error.code]
            said: object = {"error_code": error.code, "message": str(error), "details": []}
            if is_delta:
                kind = AS_DELTA.get(error.code, "BadRequestException")
                said = {"error": {"type": kind, "message": str(error), "code": code}}
            return code, json.dumps(said).encode()
        if found is None:
            return 404, b"Status: 404\nDescription: Not Found"
        return 200, json.dumps(found).encode() if found else b""

    def _let_in(self, token: str) -> None:
        if self.token and token != f"Bearer {self.token}":
            raise RefusedError("UNAUTHENTICATED", "Invalid access token.")

    def _route(self, method: str, path: str, facts: Any) -> Any:  # noqa: ANN401  # JSON
        """Return the facts of an answer, none that are to be said of a table that went; None where there is no such path."""
        split = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        way, *rest = split.path.removeprefix(API).strip("/").split("/")
        answers = {
            ("GET", "catalogs"): self._catalogs,
            ("GET", "schemas"): self._schemas,
            ("POST", "schemas"): self._create_schema,
            ("GET", "tables"): self._tables,
            ("POST", "tables"): self._create_table,
            ("DELETE", "tables"): self._delete_table,
            ("POST", "temporary-table-credentials"): self._credentials,
            ("POST", "delta"): self._update,
        }
        found = answers.get((method, way))
        return found and found([*map(unquote, rest)], query if facts is None else facts)

    def _catalogs(self, path: Sequence[str], _: object) -> Facts:
        return {"name": self._catalog(path[0])} if path else {"catalogs": [{"name": CATALOG}]}

    def _schemas(self, path: Sequence[str], query: Facts) -> Facts:
        if path:
            return self.schemas[self._schema(*path[0].split("."))]
        self._catalog(query["catalog_name"])
        return {"schemas": [*self.schemas.values()]}

    def _tables(self, path: Sequence[str], query: Facts) -> Facts:
        if path:
            return self._table(path[0])
        schema = self._schema(query["catalog_name"], query["schema_name"])
        return {"tables": [each for each in self.tables.values() if _schema_of(each) == schema]}

    def _delete_table(self, path: Sequence[str], _: object) -> Facts:
        self._table(path[0])
        del self.tables[path[0]]
        return {}

    def _catalog(self, name: str) -> str:
        if name != CATALOG:
            raise RefusedError("CATALOG_NOT_FOUND", f"Catalog not found: {name}")
        return name

    def _schema(self, catalog: str, name: str) -> str:
        full = f"{self._catalog(catalog)}.{name}"
        if full not in self.schemas:
            raise RefusedError("SCHEMA_NOT_FOUND", f"Schema not found: {full}")
        return full

    def _table(self, full: str) -> Facts:
        parts = full.split(".")
        if len(parts) != 3:  # catalog, schema, table
            raise RefusedError("INVALID_ARGUMENT", f"Invalid table name: {full}")
        self._schema(*parts[:2])
        if full not in self.tables:
            raise RefusedError("TABLE_NOT_FOUND", f"Table not found: {full}")
        return self.tables[full]

    def _create_schema(self, _: Sequence[str], given: Facts) -> Facts:
        facts = _checked("CreateSchema", given)
        full = f"{self._catalog(facts['catalog_name'])}.{_name(facts['name'])}"
        if full in self.schemas:
            raise RefusedError("SCHEMA_ALREADY_EXISTS", f"Schema already exists: {full}")
        self.schemas[full] = {**facts, **_by(), "full_name": full, "schema_id": str(uuid4())}
        return self.schemas[full]

    def _create_table(self, _: Sequence[str], given: Facts) -> Facts:
        facts = _checked("CreateTable", given)
        _name(facts["name"])
        columns = [_column(each) for each in facts["columns"]]
        schema = self._schema(facts["catalog_name"], facts["schema_name"])
        full = f"{schema}.{facts['name']}"
        if full in self.tables:
            raise RefusedError("TABLE_ALREADY_EXISTS", f"Table already exists: {full}")
        if facts["table_type"] != "EXTERNAL" or facts.get("data_source_format") != "DELTA":
            raise RefusedError("INVALID_ARGUMENT", "only external Delta tables are created here")
        self.tables[full] = {
            **facts,
            "columns": columns,
            "storage_location": _location(facts.get("storage_location")),
            "properties": _properties(facts.get("properties") or {}),
            **_by(),
            "table_id": str(uuid4()),
        }
        return self.tables[full]

    def _credentials(self, _: Sequence[str], given: Facts) -> Facts:
        facts = _checked("GenerateTemporaryTableCredential", given)
        if not any(each["table_id"] == facts["table_id"] for each in self.tables.values()):
            raise RefusedError("TABLE_NOT_FOUND", f"no table with id: {facts['table_id']}")
        if facts["operation"] not in {"READ", "READ_WRITE"}:
            raise RefusedError("INVALID_ARGUMENT", "unknown operation")
        given = {"aws_temp_credentials": dict(self.credentials)} if self.credentials else {}
        return {**given, "expiration_time": int(time.time() * 1000) + 3_600_000}

    def _update(self, path: Sequence[str], given: Facts) -> Facts | None:
        """Change a table as a whole or not at all."""
        if not self.has_updates:
            return None
        table = self._table(".".join(path[2::2]))
        facts = _checked("DeltaUpdateTableRequest", given)
        ids = [e["uuid"] for e in facts["requirements"] if e["type"] == "assert-table-uuid"]
        if ids != [table["table_id"]]:
            code = "UPDATE_REQUIREMENT_CONFLICT" if ids else "INVALID_ARGUMENT"
            raise RefusedError(code, f"assert-table-uuid: {ids}")
        to = _changes(facts["updates"])
        set_, removed = to.get("set-properties", {}), to.get("remove-properties", [])
        if set_.keys() & {*removed}:
            raise RefusedError("INVALID_ARGUMENT", "set and removed")
        kept = {n: v for n, v in table["properties"].items() if n not in removed}
        changed = {**table, "properties": _properties({**kept, **set_})}
        if "set-columns" in to:
            folders, fields = to.get("set-partition-columns", []), to["set-columns"]["fields"]
            changed["columns"] = [_of_field(n, each, folders) for n, each in enumerate(fields)]
        if "set-table-comment" in to:
            changed["comment"] = to["set-table-comment"]
        table.update(changed, updated_at=int(time.time() * 1000))
        return {
            "metadata": {"table-uuid": table["table_id"], "location": table["storage_location"]}
        }


def _changes(updates: Sequence[Facts]) -> Facts:
    """Return by its action what each update is to."""
    by_action = {each["action"]: each for each in updates}
    if len(by_action) != len(updates) or not by_action:
        raise RefusedError("INVALID_ARGUMENT", "at most one of each action, and one at least")
    for action, each in by_action.items():
        if action not in ACTIONS or each.keys() != {"action", ACTIONS[action]}:
            raise RefusedError("INVALID_ARGUMENT", f"{action} has fields {sorted(each)}")
    return {name: each[ACTIONS[name]] for name, each in by_action.items()}


def _by() -> Facts:
    """Return who made something, and when."""
    now = int(time.time() * 1000)
    return {
        "owner": "publisher",
        "created_by": "publisher",
        "updated_by": "publisher",
        "created_at": now,
        "updated_at": now,
    }


def _checked(kind: str, facts: object) -> Facts:
    """Refuse a request that lacks a field, or has one that the interface does not know."""
    required, more = KNOWN[kind]
    if not isinstance(facts, dict):
        raise RefusedError("INVALID_ARGUMENT", f"{kind} is no object")
    lacking, unknown = required - facts.keys(), facts.keys() - required - more
    if lacking or unknown:
        raise RefusedError("INVALID_ARGUMENT", f"{kind} lacks {lacking}, and knows no {unknown}")
    return facts


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise RefusedError("INVALID_ARGUMENT", f"Name cannot contain a period, …: {name}")
    return name


def _column(column: object) -> Facts:
    """Return a column as it is kept; what its JSON says must be what it says itself."""
    facts = _checked("ColumnInfo", column)
    said = json.loads(facts["type_json"])
    if {*said} != {"name", "type", "nullable", "metadata"}:
        raise RefusedError("INVALID_ARGUMENT", f"type_json is no field: {said}")
    if (said["name"], said["nullable"]) != (facts["name"], facts.get("nullable", True)):
        raise RefusedError("INVALID_ARGUMENT", f"type_json is of another column: {said}")
    if facts["type_name"] not in KINDS:
        raise RefusedError("INVALID_ARGUMENT", f"unknown type {facts['type_name']}")
    return {**facts, "type_text": facts["type_text"].lower()}


def _of_field(number: int, given: Mapping[str, Any], folders: Sequence[str]) -> Facts:
    """Return a field of ``/delta/v1`` as a column."""
    if given.keys() != {"name", "type", "nullable", "metadata"}:
        raise RefusedError("INVALID_ARGUMENT", f"a field has {sorted(given)}")
    said = {**given, "type": _camel(given["type"])}
    kind = StructField.fromJson(said).dataType
    places = (kind.precision, kind.scale) if isinstance(kind, DecimalType) else (0, 0)
    name = kind.typeName().upper()
    found = {
        "name": given["name"],
        "type_text": kind.simpleString(),
        "type_json": json.dumps(said),
        "type_name": "INT" if name == "INTEGER" else name,
        "type_precision": places[0],
        "type_scale": places[1],
        "position": number,
        "nullable": given["nullable"],
    }
    if "comment" in given["metadata"]:
        found["comment"] = given["metadata"]["comment"]
    if given["name"] in folders:
        found["partition_index"] = folders.index(given["name"])
    return _column(found)


def _camel(kind: Any) -> Any:  # noqa: ANN401  # JSON
    """Return a type of ``/delta/v1`` as in Delta's log; one that is so already is refused."""
    if isinstance(kind, list):
        return [_camel(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    if wrong := kind.keys() & {*CAMEL.values()}:
        raise RefusedError("INVALID_ARGUMENT", f"unknown {wrong}")
    return {CAMEL.get(n, n): v if n == "metadata" else _camel(v) for n, v in kind.items()}


def _properties(given: Mapping[str, str]) -> dict[str, str]:
    """Return properties as they are kept: the column of the server's database has 255 characters."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise RefusedError("INVALID_ARGUMENT", f"{name} is no text")
        if max(len(name), len(value)) > PROPERTY:
            raise RefusedError("INTERNAL", f"Value too long for column: {name}")
    return dict(given)


def _location(given: str | None) -> str:
    """Return a place in the form that the server keeps."""
    split = urlsplit(given or "")
    if split.scheme not in {"file", "s3", "gs", "abfs", "abfss"} or " " in (given or ""):
        raise RefusedError("INVALID_ARGUMENT", f"Unsupported path: {given}")
    if split.scheme != "file" and not split.path.strip("/"):
        raise RefusedError("INVALID_ARGUMENT", "must include a non-empty path prefix")
    return f"{split.scheme}://{split.netloc}{split.path.rstrip('/')}"


def _schema_of(table: Mapping[str, Any]) -> str:
    return f"{table['catalog_name']}.{table['schema_name']}"


@contextmanager
def running(**how: Any) -> Iterator[UnityServer]:  # noqa: ANN401  # the double's own fields
    """Start a double, and end it."""
    double = UnityServer(**how)
    server = ThreadingHTTPServer((HOST, 0), _handler(double))
    double.address = f"http://{HOST}:{server.server_port}"
    serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def _handler(double: UnityServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            time.sleep(double.silence)
            if double.answers:
                code, text = double.answers.pop(0)
            else:
                token = self.headers.get("Authorization", "")
                code, text = double.answer(self.command, self.path, token, body)
            double.asked.append(f"{self.command} {self.path.removeprefix(API)} {code}")
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            for name, value in double.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = do_HEAD = _any  # noqa: N815  # the names of the library

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
            pass

    return Answers
