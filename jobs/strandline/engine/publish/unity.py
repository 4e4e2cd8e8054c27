"""A Unity Catalog that shows tables, by the REST interface that it publishes: each is an external Delta table at its folder.

Its readers read Delta's log, so they see every commit at once, and no sync is needed for a row. What is written there are a name, columns,
a comment and properties, and only when one of these changed. A server of 0.5 or later changes them in place (``/delta/v1``), so what was
granted on a table stays; one without that has no way to change a table but to drop and create it.

Such a catalog cannot leave a column out: who may read the table reads all that its log names. So a table with masked columns is not shown, and
taken out if it was. The catalog itself is its owner's and not created here; a schema, which is a layer, is.

A property has at most 255 characters there (the column of the server's database), so what a table shows is a hash.
"""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from pyspark.sql.types import DecimalType, StructField, StructType

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.place import Place
from strandline.engine.publish.catalogs import Shown, short
from strandline.engine.runtime.settings import S3A
from strandline.engine.runtime.webhook import NoRedirect

NAME = "unity"
API = "/api/2.1/unity-catalog"
WAITS = 30.0
"""Seconds that a request may take."""

MOST = 16 * 2**20
"""Bytes of an answer; a table of ten thousand columns has less."""

LAKE, SHOWN, VERSION = "strandline.lake", "strandline.shown", "strandline.version"
LONGEST = 255
"""Characters of a property."""

LONGEST_COMMENT = 65_535
ENDED = "…"

EXTERNAL = "EXTERNAL"
OPTIONS = ("catalog", "token")
KINDS = {
    "boolean": "BOOLEAN",
    "byte": "BYTE",
    "short": "SHORT",
    "integer": "INT",
    "long": "LONG",
    "float": "FLOAT",
    "double": "DOUBLE",
    "decimal": "DECIMAL",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP_NTZ",
    "array": "ARRAY",
    "struct": "STRUCT",
    "map": "MAP",
    "variant": "VARIANT",
}
"""Types by the names that Delta gives them."""

NESTED = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}
"""What a list or a map says of itself, in Delta's log and in ``/delta/v1``."""

IS_LACKING = frozenset({404, 405, 501})
"""What a server answers that has no ``/delta/v1``; one that has it answers so of a table that went meanwhile."""

BUSY = http.HTTPStatus.TOO_MANY_REQUESTS


class UnityCatalog:
    """A Unity Catalog."""

    name = NAME
    follows_log = True

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        """Know where it is; it is asked at the first table.

        Args:
            address: Its address, without a path.
            options: The name of the catalog, and a token.

        Raises:
            DefinitionError: Options are unknown, or none names the catalog.
        """
        unknown = sorted(options.keys() - {*OPTIONS})
        if unknown or not options.get("catalog"):
            wrong = f"knows no {', '.join(unknown)}" if unknown else "name no catalog"
            raise DefinitionError(
                f"STRANDLINE_UNITY_OPTIONS {wrong}",
                hint='such as {"catalog": "lake", "token": "…"}; the catalog must exist there.',
            )
        self.place = address
        self._api = address.rstrip("/").removesuffix(API) + API
        self._catalog, self._token = options["catalog"], options.get("token")

    def show(self, shown: Shown) -> bool:
        """See ``Catalog``."""
        known = self._known(shown.layer, shown.name)
        properties = _properties(shown)
        if known is not None:
            has = known.get("properties") or {}
            if not _is_of(known, shown.position.lake):
                whose = f"the lake {has[LAKE]}" if LAKE in has else "another origin"
                raise DefinitionError(
                    f"{self.place} has a table {self._full(shown.layer, shown.name)} of {whose}",
                    hint="publish each lake to a catalog of its own, or drop that table there.",
                )
            if has.get(SHOWN) == properties[SHOWN]:
                return False
            if _is_there(known, shown.path) and self._changed(known, shown, properties):
                return True
            self._gone(shown.layer, shown.name)
        self._created(shown, properties)
        return True

    def drop(self, layer: str, name: str, lake: str) -> bool:
        """See ``Catalog``."""
        known = self._known(layer, name)
        if known is None or not _is_of(known, lake):
            return False
        self._gone(layer, name)
        return True

    def _full(self, layer: str, name: str) -> str:
        return f"{self._catalog}.{layer}.{name}"

    def _known(self, layer: str, name: str) -> Mapping[str, Any] | None:
        """Return what the catalog says of a table; None where it has none of that name."""
        full = self._full(layer, name)
        code, body = self._asked("GET", f"/tables/{quote(full)}")
        if code == http.HTTPStatus.NOT_FOUND:
            return None
        return self._taken(full, code, body)

    def _gone(self, layer: str, name: str) -> None:
        """Take a table out: an external one, whose files stay."""
        full = self._full(layer, name)
        code, body = self._asked("DELETE", f"/tables/{quote(full)}")
        if code != http.HTTPStatus.NOT_FOUND:
            self._taken(full, code, body)

    def _created(self, shown: Shown, properties: Mapping[str, str]) -> None:
        """Create the table, and its schema where that is missing."""
        full = self._full(shown.layer, shown.name)
        facts = {
            "catalog_name": self._catalog,
            "schema_name": shown.layer,
            "name": shown.name,
            "table_type": EXTERNAL,
            "data_source_format": "DELTA",
            "storage_location": _location(shown.path),
            "columns": [_column(shown, n, each) for n, each in enumerate(_schema(shown))],
            "properties": properties,
            **_comment(shown.position.words.get("comment")),
        }
        code, body = self._asked("POST", "/tables", facts)
        if code == http.HTTPStatus.NOT_FOUND:
            schema = {"catalog_name": self._catalog, "name": shown.layer}
            made, why = self._asked("POST", "/schemas", schema)
            if made == http.HTTPStatus.NOT_FOUND:
                raise DefinitionError(
                    f"{self.place} has no catalog {self._catalog}",
                    hint="create it there: where it may keep its own tables is its owner's to say; or name another one.",
                )
            if not _exists(why):
                self._taken(f"{self._catalog}.{shown.layer}", made, why)
            code, body = self._asked("POST", "/tables", facts)
        if _exists(body):
            raise TransientError(
                f"another writer has created {full} in {self.place} meanwhile",
                hint="the next sync looks whose it is.",
            )
        self._taken(full, code, body)

    def _changed(
        self, known: Mapping[str, Any], shown: Shown, properties: Mapping[str, str]
    ) -> bool:
        """Change what is said of a table in place; return False where the server has no way to."""
        had = known.get("properties") or {}
        gone = [each for each in had if each.startswith("strandline.") and each not in properties]
        updates: list[Mapping[str, object]] = [
            {"action": "set-columns", "columns": _kebab(_schema(shown).jsonValue())},
            {"action": "set-partition-columns", "partition-columns": _folders(shown)},
            {"action": "set-properties", "updates": properties},
            {
                "action": "set-table-comment",
                "comment": _comment(shown.position.words.get("comment")).get("comment", ""),
            },
        ]
        if gone:
            updates.append({"action": "remove-properties", "removals": gone})
        code, body = self._asked(
            "POST",
            f"/delta/v1/catalogs/{quote(self._catalog)}/schemas/{quote(shown.layer)}/tables/{quote(shown.name)}",
            {
                "requirements": [{"type": "assert-table-uuid", "uuid": known.get("table_id")}],
                "updates": updates,
            },
            is_known=False,
        )
        if code in IS_LACKING:
            return False
        if code == http.HTTPStatus.CONFLICT:
            raise TransientError(
                f"another writer changed a table of {self.place} meanwhile: {_says(body)}",
                hint="the next sync goes on; let nothing else write these tables.",
            )
        self._taken(self._full(shown.layer, shown.name), code, body)
        return True

    def _taken(self, what: str, code: int, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an answer that takes a request.

        Raises:
            DefinitionError: It does not.
        """
        if code >= http.HTTPStatus.BAD_REQUEST:
            raise DefinitionError(
                f"the catalog {self.place} does not take {what}: {_says(body) or f'HTTP {code}'}",
                hint="the table stays as it is there; streams go on.",
            )
        return body

    def _asked(
        self, method: str, path: str, facts: object = None, *, is_known: bool = True
    ) -> tuple[int, Mapping[str, Any]]:
        """Ask, and return the answer's code and facts.

        Args:
            method: How.
            path: What, below the interface's own path.
            facts: What to send.
            is_known: Whether every server has the path, so that what it answers without words of its own is of another server.

        Raises:
            DefinitionError: It refuses who asks, or what is there is another server.
            TransientError: It is away, busy or at fault.
        """
        request = urllib.request.Request(  # noqa: S310  # the setting accepts http and https alone
            self._api + path,
            None if facts is None else json.dumps(facts).encode(),
            {"Content-Type": "application/json", "Accept": "application/json"},
            method=method,
        )
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            code, text = _answer(request)
        except (OSError, http.client.HTTPException) as error:
            raise TransientError(
                f"the catalog {self.place} does not answer: {short(error)}",
                hint="streams go on, and readers find what they found; the next sync brings what it lacks.",
            ) from error
        body = _facts(text)
        if code in {http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN}:
            raise DefinitionError(
                f"the catalog {self.place} refuses: {_says(body) or f'HTTP {code}'}",
                hint="set a token in STRANDLINE_UNITY_OPTIONS, of one who may create tables in the catalog, and at that place.",
            )
        is_at_fault = code >= http.HTTPStatus.INTERNAL_SERVER_ERROR or code == BUSY
        if is_at_fault and (is_known or code not in IS_LACKING):
            raise TransientError(
                f"the catalog {self.place} cannot answer: {_says(body) or f'HTTP {code}'}",
                hint="the next sync tries again.",
            )
        is_strange = body is None or (code >= http.HTTPStatus.MULTIPLE_CHOICES and not _says(body))
        if is_known and is_strange:
            raise DefinitionError(
                f"{self.place} is no Unity Catalog: it answers {method} {API}{path} with HTTP {code}",
                hint="STRANDLINE_UNITY is its address without a path, such as http://127.0.0.1:8080.",
            )
        return code, body or {}


def _answer(request: urllib.request.Request) -> tuple[int, bytes]:
    """Return the code and the text of an answer, which ends however slowly it comes and however long it would be."""
    until = time.monotonic() + WAITS
    try:
        # The token would go along with a redirect.
        found = urllib.request.build_opener(NoRedirect).open(request, timeout=WAITS)
    except urllib.error.HTTPError as error:
        found = error
    parts, size = [], 0
    with found:
        while part := found.read1(65_536):
            parts.append(part)
            size += len(part)
            if size > MOST or time.monotonic() > until:
                raise TimeoutError(f"no whole answer of up to {MOST:,} bytes in {WAITS:.0f} s")
    return int(found.status), b"".join(parts)


def _facts(text: bytes) -> Mapping[str, Any] | None:
    """Return the facts of an answer, none of an empty one; None where it is no JSON of them."""
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError:
        return None
    return found if isinstance(found, dict) else None if found else {}


def _says(body: Mapping[str, Any] | None) -> str:
    """Return what a server says of an error, by either part of its interface."""
    found = body or {}
    error = found.get("error")
    inner = error if isinstance(error, dict) else {}
    kind = str(found.get("error_code") or inner.get("type") or "")
    said = str(found.get("message") or inner.get("message") or "")
    return ": ".join(filter(None, (kind, said)))[:300]


def _exists(body: Mapping[str, Any]) -> bool:
    return str(body.get("error_code", "")).endswith("ALREADY_EXISTS")


def _is_of(known: Mapping[str, Any], lake: str) -> bool:
    """Return whether a lake has published a table; a managed one would lose its files if it were dropped, whatever it says of itself."""
    has = known.get("properties") or {}
    return known.get("table_type") == EXTERNAL and has.get(LAKE) == _lake(lake)


def _is_there(known: Mapping[str, Any], path: Place) -> bool:
    """Return whether an entry has the table's address, which no request changes in place; a server may write its scheme otherwise."""
    _, is_address, place = str(known.get("storage_location") or "").partition("://")
    return not is_address or place.rstrip("/") == _location(path).partition("://")[2]


def _lake(root: str) -> str:
    """Return a lake as a property has it."""
    return root if len(root) <= LONGEST else f"sha256:{sha256(root.encode()).hexdigest()}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - len(ENDED)] + ENDED


def _properties(shown: Shown) -> dict[str, str]:
    """Return what the catalog keeps of a table beside its columns; one of them says what is shown."""
    now = shown.position
    words = {
        name if name.startswith("strandline.") else f"strandline.{name}": _cut(value, LONGEST)
        for name, value in now.words.items()
        if name != "comment"
    }
    said = [
        now.table,
        now.columns,
        _folders(shown),
        sorted(now.words.items()),
        _location(shown.path),
    ]
    return {
        **words,
        LAKE: _lake(now.lake),
        SHOWN: sha256(json.dumps(said).encode()).hexdigest(),
        VERSION: str(now.version),
    }


def _comment(text: object) -> dict[str, str]:
    return {"comment": _cut(str(text), LONGEST_COMMENT)} if text else {}


def _location(path: Place) -> str:
    """Return a table's folder as the catalog's readers name it."""
    return f"{'s3' if path.scheme == S3A else path.scheme}://{quote(path.path, safe='/@')}"


def _schema(shown: Shown) -> StructType:
    return StructType.fromJson(json.loads(shown.live.metadata["schemaString"]))


def _folders(shown: Shown) -> list[str]:
    return [*shown.live.metadata.get("partitionColumns", ())]


def _column(shown: Shown, number: int, field: StructField) -> dict[str, object]:
    """Return a column in the catalog's words."""
    kind, folders = field.dataType, _folders(shown)
    places = (kind.precision, kind.scale) if isinstance(kind, DecimalType) else (0, 0)
    found: dict[str, object] = {
        "name": field.name,
        "position": number,
        "type_text": kind.simpleString(),
        "type_json": field.json(),
        "type_name": KINDS[kind.typeName()],
        "type_precision": places[0],
        "type_scale": places[1],
        "nullable": field.nullable,
        **_comment(field.metadata.get("comment")),
    }
    if field.name in folders:
        found["partition_index"] = folders.index(field.name)
    return found


def _kebab(kind: Any) -> Any:  # noqa: ANN401  # a value of JSON
    """Return a type as Delta's log has it in the words of ``/delta/v1``; what a column says of itself stays as it is."""
    if isinstance(kind, list):
        return [_kebab(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    return {
        NESTED.get(name, name): value if name == "metadata" else _kebab(value)
        for name, value in kind.items()
    }
