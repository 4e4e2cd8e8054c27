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

import infra
from jobs.core.table import Table
from jobs.engine.runtime.code_files import Tree, declared, roots, version_of
from jobs.project import project

ARCHIVE = Path(infra.__file__).parent / "former_code.zip"
PACKED = Path("former")
"""Where the files of the archive count as being; there is no such folder."""
PACKAGES = ("jobs", "quality")
VOCABULARY = (("jobs", "core"), ("quality",))
MOVED = PACKED.joinpath("jobs", "core", "project.py")
"""Was among the vocabulary, and decided no row."""


@cache
def was_code_of(table: Table, code: str) -> bool:
    """Return whether a hash is of the files of a former program that says of a table what today's says."""
    tree = _tree()
    own = _own(tree, table)
    if not own:
        return False
    files = tree.reached([*_vocabulary(tree), *own])
    if _hash_of_files(tree, files) != code:
        return False
    return tree.version([each for each in files if each != MOVED]) == version_of(table)


@cache
def _tree() -> Tree:
    with ZipFile(ARCHIVE) as archive:
        texts = {
            PACKED.joinpath(*name.split("/")): archive.read(name) for name in archive.namelist()
        }
    own = {name: root for name, root in roots().items() if project() and name in _own_packages()}
    return Tree(roots={**own, **dict.fromkeys(PACKAGES, PACKED)}, packed=texts)


def _own_packages() -> set[str]:
    found = project()
    return {found.tables.partition(".")[0]} if found else set()


def _vocabulary(tree: Tree) -> list[Path]:
    folders = [PACKED.joinpath(*parts) for parts in VOCABULARY]
    return [file for file in tree.packed if file.parent in folders]


def _own(tree: Tree, table: Table) -> list[Path]:
    """Return a table's own modules then: the example's are in the archive, those of a project are its files as they are."""
    found = project()
    if found is not None:
        return [file for file in declared(table) if file.is_relative_to(found.root)]
    tables = [table]
    for each in tables:
        tables += each.needs
    files = [PACKED.joinpath("jobs", each.layer, f"{each.name}.py") for each in tables]
    return files if all(file in tree.packed for file in files) else []


def _hash_of_files(tree: Tree, files: tuple[Path, ...]) -> str:
    """Return the hash as former programs made it: name and bytes of each file, in the order of their places."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + tree.text(file))
    return digest.hexdigest()[:12]
