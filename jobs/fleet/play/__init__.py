"""Events to play with: made from a seed, dirty on purpose, with the truth about each known.

``strandline demo`` and ``strandline produce`` send what ``events`` returns. Each argument after the star is an option of ``produce``.
"""

from datetime import datetime, timedelta
from typing import Annotated

from fleet.play.domain import Playing, domain
from fleet.play.plan import Plan
from fleet.silver import device_telemetry

WHOLE = (0.0, 1.0)


def events(  # noqa: PLR0913  # each is an option of the command line
    count: int,
    until: datetime,
    *,
    at_once: int,
    seed: Annotated[int, "The same seed gives the same events."] = 7,
    since: Annotated[
        datetime | None, "First arrival, UTC; a span before --until when absent."
    ] = None,
    hours: Annotated[float, "The span when --since is absent.", (0.01, None)] = 24.0,
    devices: Annotated[int, (1, None)] = 200,
    key_skew: Annotated[float, "0: all devices send alike; 1: few send most.", (0.0, None)] = 0,
    malformed: Annotated[float, WHOLE] = 0.02,
    duplicate: Annotated[float, WHOLE] = 0.03,
    late: Annotated[float, WHOLE] = 0.01,
    early: Annotated[float, WHOLE] = 0.01,
    unknown_field: Annotated[float, WHOLE] = 0.02,
    wrong_type: Annotated[float, WHOLE] = 0.02,
    missing: Annotated[float, WHOLE] = 0.01,
    implausible: Annotated[float, "Share of readings that no sensor can measure.", WHOLE] = 0.0,
    planted: Annotated[
        float, "Share of connections in which data is carried off, for models.", WHOLE
    ] = 0.0,
) -> Playing:
    """Return the events of all sources that arrive until a moment.

    Raises:
        DefinitionError: The numbers contradict themselves.
    """
    law = device_telemetry.TABLE.lateness
    plan = Plan(
        since=since or until - timedelta(hours=hours),
        until=until,
        events=count,
        seed=seed,
        devices=devices,
        key_skew=key_skew,
        late=law.late,
        early=law.early,
        malformed=malformed,
        duplicate=duplicate,
        late_share=late,
        early_share=early,
        unknown_field=unknown_field,
        wrong_type=wrong_type,
        missing=missing,
        implausible=implausible,
        planted=planted,
    )
    return Playing(plan, domain(plan), at_once)
