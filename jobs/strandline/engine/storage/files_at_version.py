"""The files of a table at a version, from its log alone; no commit is ever removed from it (jobs/strandline/engine/storage/delta_commit.py)."""

from dataclasses import dataclass

from strandline.engine.storage.commit_log import Kind, actions, torn
from strandline.engine.storage.place import Place


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The files of one version.

    Args:
        files: The log's lines that added them, by their paths as in the log.
        columns: The schema, as in Delta's metadata.
        folders: The partition columns.
    """

    files: dict[str, str]
    columns: str
    folders: tuple[str, ...] = ()


def table_files(path: Place, version: int) -> TableFiles:
    """Return the files, the schema and the partition columns of a table at a version."""
    files: dict[str, str] = {}
    columns, folders = "", ()
    for number in range(version + 1):
        added: dict[str, str] = {}
        for action in actions(path, number, Kind.ADD, Kind.REMOVE, Kind.METADATA):
            match action.kind:
                case Kind.ADD:
                    added[action.body["path"]] = action.line
                case Kind.REMOVE:
                    files.pop(action.body["path"], None)
                case _:
                    columns = action.body["schemaString"]
                    folders = tuple(action.body["partitionColumns"])
        files |= added
    return TableFiles(files, columns, folders)


def table_id(path: Place) -> str:
    """Return the id that Delta gave to a table when it was created.

    Raises:
        DamagedError: Its first commit is torn.
    """
    found = next(actions(path, 0, Kind.METADATA), None)
    if found is None:
        raise torn(path, 0)
    return str(found.body["id"])
