"""The code of former programs: what lakes keep of it is a hash of whole files, which nothing that is here today has.

Up to a day of November 2026 certificates, ledgers and caches of lineage had the hash of the bytes of modules, with their comments.
The texts of those modules are kept in an archive, and give that hash again. It means today's code as long as
the statements of both are the same; once a statement of a table or of the vocabulary changes, it is other code, as it should be.

The archive is opened only where a hash is not today's.
"""

import hashlib
from functools import cache
from pathlib import Path
from zipfile import ZipFile

from strandline.core.table import Table
from strandline.engine.runtime.code_files import Tree, declared, version_of
from strandline.project import project
from strandline_infra import home

ARCHIVE = Path(home.__file__).with_name("former_code.zip")
PACKED = Path("former")
"""Where the files of the archive count as being; there is no such folder."""
ENGINE, QUALITY = "jobs", "quality"
"""What the packages were called then."""
MOVED = PACKED.joinpath(ENGINE, "core", "project.py")
"""Was among the vocabulary, and decided no row."""
REWORDED = {
    f"module in {ENGINE}/bronze,": "module of bronze,",
    f"over it in {ENGINE}/silver,": "over it in silver,",
}
"""Sentences of errors that named a folder; what they name today."""


@cache
def was_code_of(table: Table, code: str) -> bool:
    """Return whether a hash is of the files of a former program that says of a table what today's says."""
    tree = _tree()
    for own in (_of_example(tree, table), _of_project(table)):
        files = tree.reached([*tree.vocabulary(), *own]) if own else ()
        if files and _hash_of_files(files) == code:
            return tree.version([each for each in files if each != MOVED]) == version_of(table)
    return False


@cache
def _texts() -> dict[Path, bytes]:
    with ZipFile(ARCHIVE) as archive:
        names = archive.namelist()
        return {PACKED.joinpath(*name.split("/")): archive.read(name) for name in names}


@cache
def _tree() -> Tree:
    said = {file: _reworded(text) for file, text in _texts().items()}
    found = project()
    own = {found.tables.partition(".")[0]: found.root} if found else {}
    then = dict.fromkeys((ENGINE, QUALITY), PACKED)
    return Tree(roots={**own, **then}, engine=ENGINE, quality=QUALITY, packed=said)


def _reworded(text: bytes) -> bytes:
    for old, new in REWORDED.items():
        text = text.replace(old.encode(), new.encode())
    return text


def _of_example(tree: Tree, table: Table) -> list[Path]:
    """Return the modules in the archive of a table of the example; none where the table is another one."""
    tables = [table]
    for each in tables:
        tables += each.needs
    files = [PACKED.joinpath(ENGINE, each.layer, f"{each.name}.py") for each in tables]
    return files if all(file in tree.packed for file in files) else []


def _of_project(table: Table) -> list[Path]:
    """Return the modules of a table of a project of one's own: its files as they are."""
    found = project()
    return [each for each in declared(table) if found and each.is_relative_to(found.root)]


def _hash_of_files(files: tuple[Path, ...]) -> str:
    """Return the hash as former programs made it: name and bytes of each file, in the order of their places."""
    digest, packed = hashlib.sha256(), _texts()
    for file in files:
        content = packed[file] if file in packed else file.read_bytes()
        digest.update(file.name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]
