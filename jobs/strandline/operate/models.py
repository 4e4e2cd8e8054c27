"""Models of tables: versions are trained and evaluated, and decisions about them signed."""

from collections.abc import Mapping
from typing import Any

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.model import Model
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from strandline.engine.learning.promote_model import Desk
from strandline.engine.repair.closed_range import Span
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import session
from strandline.operate.listener import Says


def trained(
    model: Model, span: Span, found: Settings, where: Lake, says: Says
) -> Mapping[str, Any]:
    """Train a version on a range of its table's rows, and return it."""
    where.refuse_missing(model.of)
    # Not imported above: MLlib takes numpy, and the other use cases need no Spark.
    from strandline.engine.learning.train_model import train  # noqa: PLC0415  # as above

    return train(_spark(found, where, says), model, where, span, clock.now())


def evaluated(  # noqa: PLR0913, PLR0917  # which version of what, on what, where, and who hears of it
    model: Model, version: str, span: Span, found: Settings, where: Lake, says: Says
) -> dict[str, float]:
    """Return how a version does on a range of its table's rows; nothing is written."""
    from strandline.engine.learning.train_model import evaluate  # noqa: PLC0415  # as above

    return evaluate(_spark(found, where, says), model, where, version, span)


def desk_of(name: str, lake: Lake) -> Desk:
    """Return where decisions about a model are made, signed by the user."""
    return Desk(lake=lake, model=catalog.model(name), clock=clock.now, by=clock.login())


def version_of(lake: Lake, name: str, digits: str) -> str:
    """Return the version that begins with some digits.

    Raises:
        DefinitionError: There is none, or there are several.
    """
    catalog.model(name)
    known = [str(each["version"]) for each in shelves.versions(lake, name)]
    fitting = [each for each in known if digits and each.startswith(digits)]
    if len(fitting) == 1:
        return fitting[0]
    said = "several versions begin with" if fitting else "no version begins with"
    raise DefinitionError(
        f"{said} {digits or 'nothing'}",
        hint=f"the versions of {name} are {', '.join(known) or 'none yet; train one'}.",
        model=name,
    )


def _spark(found: Settings, where: Lake, says: Says) -> Any:  # noqa: ANN401  # its class takes half a second to import
    return session.site(found, where.open_for_writing(), None, is_brief=True, says=says).spark
