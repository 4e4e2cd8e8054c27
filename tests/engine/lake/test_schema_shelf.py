"""The schemas of a lake are kept for ever, and are found by any process."""

import pickle

from strandline.core.routes import Format, Reference, WriterSchema
from strandline.engine.lake import shelves
from strandline.engine.lake.place import Place
from strandline.engine.lake.shelves import Shelf

SCHEMA = WriterSchema(
    number=7, kind=Format.JSON, text='{"type": "object"}', references=(Reference("a", "{}"),)
)


def test_a_schema_is_found_by_another_process(either: Place) -> None:
    """In a folder and on a store; Spark sends the shelf to its workers."""
    shelf = Shelf(either / "_schemas")
    shelf.keep(7, SCHEMA)
    shelves._FOUND.clear()

    assert pickle.loads(pickle.dumps(shelf))(7) == SCHEMA  # noqa: S301  # as Spark does
    assert (shelf.has(7), shelf.has(8), shelf(8)) == (True, False, None)


def test_the_first_answer_about_an_id_stays(anywhere: Place) -> None:
    """Or a batch would decode what a stream has quarantined."""
    shelf = Shelf(anywhere / "_schemas")
    shelf.keep(7, None)
    shelf.keep(7, SCHEMA)

    assert (shelf.has(7), shelf(7)) == (True, None)


def test_a_copy_of_a_lake_has_its_schemas(anywhere: Place) -> None:
    shelf, other = Shelf(anywhere / "_schemas"), Shelf(anywhere / "other" / "_schemas")
    shelf.keep(7, SCHEMA)
    shelf.keep(8, None)

    shelf.lend(other)

    assert (other(7), other.has(8), other(8)) == (SCHEMA, True, None)
