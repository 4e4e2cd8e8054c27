"""The component by which ``dg`` knows us: a few lines of YAML in a project of Dagster bring the tables of a lake."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from dagster import (
    Component,
    ComponentLoadContext,
    Definitions,
    Model,
    Resolvable,
    Resolver,
    Scaffolder,
    ScaffoldRequest,
    scaffold_component,
    scaffold_with,
)
from pydantic import BaseModel, Field

from strandline_dagster.placed import definitions

FILE = "strandline.toml"
HERE = "."
PROJECT = (
    "Folder with strandline.toml, from the root of this project; it, or one above, when absent."
)


def said(about: str) -> Resolver:
    """Return what an editor shows of a field of the YAML."""
    made: Resolver = Resolver.default(description=about)
    return made


class ScaffoldParams(BaseModel):
    """What ``dg scaffold defs`` may be given."""

    project: str | None = Field(default=None, description=PROJECT)
    profile: str | None = Field(default=None, description="Profile of strandline.toml.")
    lake: str | None = Field(default=None, description="Folder or address of the lake.")
    key_prefix: str | None = Field(default=None, description="What keys of assets begin with.")


class StrandlineScaffolder(Scaffolder[ScaffoldParams]):
    """Writes the component's YAML."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Return what may be given."""
        return ScaffoldParams

    def scaffold(self, request: ScaffoldRequest[ScaffoldParams]) -> None:
        """Write what was given, and of the rest what a person will look for."""
        given = {name: each for name, each in request.params.model_dump().items() if each}
        scaffold_component(request, {"project": HERE, **given, "tables": ["*"], "schedules": False})


@scaffold_with(StrandlineScaffolder)
class StrandlineComponent(Component, Model, Resolvable):
    """The tables of a Strandline lake: assets with checks, days and lineage, the jobs that fill and keep them, and what streams write."""

    project: Annotated[str | None, said(PROJECT)] = None
    profile: Annotated[str | None, said("Profile of strandline.toml, such as prod.")] = None
    lake: Annotated[
        str | None, said("Folder or address of the lake; the profile's when absent.")
    ] = None
    tables: Annotated[
        Sequence[str],
        said(
            "Tables that are shown and worked on, as names or patterns such as gold.*; all when absent."
        ),
    ] = ()
    key_prefix: Annotated[
        str | list[str], said("What the keys and groups of assets begin with; nothing when absent.")
    ] = ""
    job_prefix: Annotated[
        str, said("What the names of jobs, schedules, sensors and steps begin with, such as lake_.")
    ] = ""
    schedules: Annotated[
        bool | None,
        said(
            "Whether schedules run by themselves, all or none; each as its code says when absent."
        ),
    ] = None
    sensors: Annotated[
        bool,
        said("Whether sensors run by themselves, which report what streams write and watch them."),
    ] = True

    def build_defs(self, context: ComponentLoadContext) -> Definitions:
        """Return the definitions."""
        words: Mapping[str, Any] = {
            name: getattr(self, name) for name in type(self).model_fields if name != "project"
        }
        return definitions(project=_folder(self.project, context.project_root), **words)


def _folder(project: str | None, root: Path) -> Path | None:
    """Return the folder of the project of tables; of a relative name, from the root of Dagster's."""
    if project is not None:
        return root / Path(project).expanduser()
    return next((each for each in (root, *root.parents) if (each / FILE).is_file()), None)
