"""The files of one table in the folder of another, without a copy: the same bytes under a second name.

Data files are never changed once they are written, so a link is as good as a copy, takes no room and no time. An object store
has no links; there the server copies.
"""

import os
from collections.abc import Iterable

from strandline.engine.storage.commit_log import commit_file
from strandline.engine.storage.lasting_files import keep_files
from strandline.engine.storage.log_actions import added
from strandline.engine.storage.place import Place


def link_files(source: Place, target: Place, names: Iterable[str]) -> None:
    """Give files of one table a second name in the folder of another; those that are there already stay."""
    folders = set[Place]()
    for name in names:
        place = target / name
        folders.add(place.parent)
        if place.exists():
            continue
        if place.is_local:
            place.parent.make()
            os.link(source / name, place)
        else:
            (source / name).copy(place)
    for folder in folders:
        keep_files((), within=folder)


def link_commit(source: Place, target: Place, version: int) -> None:
    """Let a table have a commit of another: its data files first and the commit last, as a writer would."""
    link_files(
        source, target, [Place.of(file).below(source) for file in added(source, version).files]
    )
    commit = commit_file(source, version)
    link_files(commit.parent, commit_file(target, version).parent, [commit.name])
