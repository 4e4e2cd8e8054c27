"""The file of a contract: read, and its shape checked once, so that no use of it meets a text where a list belongs.

A contract of others is foreign text: it may name itself, nest a thousand times, or be worth more memory than there is. What is not
known of the standard is kept as it is, and nothing is demanded of it but a size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from strandline.core.errors import DefinitionError
from strandline.operate.drafts.module_text import plain

Contract: TypeAlias = Mapping[str, Any]

DEEPEST, MOST_NODES, MOST_DIGITS = 40, 100_000, 40
"""Bounds of a contract: levels, values of all kinds (one that is named twice counts twice), digits of a whole number."""


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping.

    Args:
        fields: The shape of its values, by their names; of others nothing is demanded.
        needs: The names that must be there.
    """

    fields: "dict[str, Shape]"
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Many:
    """A list of values of one shape."""

    of: "Shape"


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that has no others within, or one of which nothing is known."""

    kinds: tuple[type, ...]
    says: str


Shape: TypeAlias = Record | Many | Plain

ANY = Plain((object,), "anything")
TEXT = Plain((str,), "a text; write it between quotes")
FLAG = Plain((bool,), "true or false")
WHOLE = Plain((int,), "a whole number")
VALUE = Plain((str, int, float, bool, date, type(None)), "a text, a number or a date")
TEXTS = Plain((str, list), "a text, or a list of texts")

CHECK = Record(
    {
        **dict.fromkeys(("name", "description", "type", "metric", "rule", "query"), TEXT),
        **dict.fromkeys(("severity", "unit"), TEXT),
        "arguments": Record({"validValues": Many(VALUE), "pattern": TEXT}),
        "customProperties": Many(Record({"property": TEXT})),
    }
)
LINK = Record({"from": TEXTS, "to": TEXTS})
PROPERTY_FIELDS: dict[str, Shape] = {
    **dict.fromkeys(("name", "logicalType", "physicalType", "classification"), TEXT),
    **dict.fromkeys(("primaryKey", "required"), FLAG),
    "primaryKeyPosition": WHOLE,
    "logicalTypeOptions": Record({"pattern": TEXT}),
    "quality": Many(CHECK),
    "relationships": Many(LINK),
}
PROPERTY = Record(PROPERTY_FIELDS, ("name",))
PROPERTY_FIELDS["properties"] = Many(PROPERTY)
PROPERTY_FIELDS["items"] = Record(PROPERTY_FIELDS)
TABLE = Record(
    {
        **dict.fromkeys(("name", "physicalName"), TEXT),
        "properties": Many(PROPERTY),
        "quality": Many(CHECK),
        "relationships": Many(LINK),
    }
)
CONTRACT = Record(
    {
        **dict.fromkeys(("id", "version"), VALUE),
        "domain": TEXT,
        "schema": Many(TABLE),
        "slaProperties": Many(
            Record({"property": TEXT, "unit": TEXT, "value": VALUE}, ("property", "value"))
        ),
    },
    ("schema",),
)


def read(file: Path) -> Contract:
    """Read a contract: what is nothing in it is left out, and of all else the shape is that of the standard.

    Raises:
        DefinitionError: There is no such file, or it is no contract of a standard that is known.
    """
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DefinitionError(
            f"{file} cannot be read: {error.strerror}", hint="name a file that is there."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DefinitionError(
            f"{file} is no YAML: {plain(str(error))}", hint="correct that line."
        ) from error
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        # What its reader meets within a value, such as a day that is none.
        raise DefinitionError(
            f"{file} has a value that is none, or is nested too deeply: {plain(str(error))}",
            hint="write texts, such as versions, between quotes.",
        ) from error
    is_one = isinstance(found, dict) and found.get("kind") == "DataContract"
    if not is_one or not str(found.get("apiVersion", "")).startswith("v3"):
        raise DefinitionError(
            f"{file} is no contract of the Open Data Contract Standard 3",
            hint="its kind is DataContract, and its apiVersion v3.1.0 or another of version 3.",
        )
    made: dict[str, Any] = _Shaped(file).record(found, CONTRACT, "", 0)
    if not made["schema"]:
        raise DefinitionError(
            f"{file} has no table", hint="a contract names at least one in its schema."
        )
    return made


@dataclass(slots=True)
class _Shaped:
    """The values of a file, as they are of a shape.

    Args:
        file: The file.
        nodes: How many values were looked at.
    """

    file: Path
    nodes: int = 0

    def value(self, found: object, shape: Shape, where: str, depth: int) -> Any:  # noqa: ANN401  # of YAML
        """Return a value of a shape."""
        self.nodes += 1
        if depth > DEEPEST or self.nodes > MOST_NODES:
            raise self._refused(
                where,
                f"nested in more than {DEEPEST} levels, or one of more than {MOST_NODES:,} values",
                "less",
            )
        match shape:
            case Record():
                return self.record(found, shape, where, depth)
            case Many():
                return self.many(found, shape.of, where, depth)
            case Plain():
                return self.plain(found, shape, where, depth)

    def record(self, found: object, shape: Record, where: str, depth: int) -> dict[str, Any]:
        """Return a mapping, without what is nothing."""
        if not isinstance(found, dict):
            raise self._refused(where, _named(found), "a mapping of names")
        there = {
            name: each for name, each in found.items() if isinstance(name, str) and each is not None
        }
        for name in shape.needs:
            if name not in there:
                raise self._refused(where, f"without {name}", f"a mapping with {name}")
        return {
            name: self.value(
                each, shape.fields.get(name, ANY), f"{where}.{name}".lstrip("."), depth + 1
            )
            for name, each in there.items()
        }

    def many(self, found: object, shape: Shape, where: str, depth: int) -> list[Any]:
        """Return a list."""
        if not isinstance(found, list):
            raise self._refused(where, _named(found), "a list")
        return [self.value(each, shape, f"{where}[{n}]", depth + 1) for n, each in enumerate(found)]

    def plain(self, found: object, shape: Plain, where: str, depth: int) -> Any:  # noqa: ANN401  # as above
        """Return a value that is plain, or of which nothing is known."""
        if isinstance(found, int) and abs(found) >= 10**MOST_DIGITS:
            raise self._refused(where, "a number of very many digits", f"at most {MOST_DIGITS}")
        is_flag = isinstance(found, bool) and bool not in shape.kinds and shape is not ANY
        if is_flag or not isinstance(found, shape.kinds):
            raise self._refused(where, _named(found), shape.says)
        if isinstance(found, dict):
            return self.record(found, Record({}), where, depth)
        if isinstance(found, list):
            return self.many(found, TEXT if shape is TEXTS else ANY, where, depth)
        return found

    def _refused(self, where: str, what: str, wanted: str) -> DefinitionError:
        return DefinitionError(
            f"{self.file}: {plain(where) or 'it'} is {what}",
            hint=f"the standard wants {wanted} there.",
            file=str(self.file),
        )


NAMES: Sequence[tuple[tuple[type, ...], str]] = (
    ((dict,), "a mapping"),
    ((list,), "a list"),
    ((type(None),), "nothing"),
)


def _named(found: object) -> str:
    """Return how a value is named in a sentence."""
    name = next((name for kinds, name in NAMES if isinstance(found, kinds)), "")
    return name or repr(plain(found, 40) if isinstance(found, str) else found)[:60]
