"""The rows that a condition means are deleted in all layers, and the history behind such requests is made unreadable."""

from strandline.core.errors import TransientError
from strandline.engine.lake.forgotten import Forgotten
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.forget import Forgetting, Part, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.scrub import Scrubbed, due, scrub
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import session
from strandline.operate.listener import Says


def forgotten(  # noqa: PLR0913  # the request, where, how far, and who hears of it
    request: Request, found: Settings, lake: Lake, says: Says, *, now: bool, go: bool
) -> tuple[Forgetting, list[Part], list[Part]]:
    """Find what a request means, and delete it with ``go``.

    Args:
        request: Whom to forget.
        found: The settings.
        lake: The lake.
        says: Hears of what takes time, and of what is not searched.
        now: Whether tables are computed anew whose time a stream still owns.
        go: Whether it is done.

    Returns:
        The work, what was found, and what was done.
    """
    says("starting Spark …")
    site = session.site(found, lake, None, is_brief=True, says=says)
    spark = site.spark
    work = Forgetting(spark, lake, request, site if now else None)
    if not work.condition.words:
        says(
            "the condition is no comparison with texts: only records that can be parsed are searched"
        )
    parts = [part for part in work.parts() if part.rows or part.mentions]
    done = [*carry_out(work, lake, request, clock.now, parts)] if go else []
    spark.stop()
    return work, parts, done


def scrubbed(
    found: Settings, lake: Lake, says: Says, *, go: bool
) -> tuple[list[Forgotten], list[Scrubbed]]:
    """Find the requests whose history is due, and make it unreadable with ``go``."""
    ready = due(lake, clock.now())
    done = []
    if go and ready:
        says("starting Spark …")
        spark = session.site(found, lake, None, is_brief=True, says=says).spark
        done = [*scrub(spark, lake, clock.now())]
        spark.stop()
    return ready, done


def refuse_waiting(parts: list[Part]) -> None:
    """Exit with 3 where a part waits.

    Raises:
        TransientError: It does.
    """
    reasons = dict.fromkeys(
        f"{each.table}: {each.waits}" for each in parts if each.waits and each.rows
    )
    if reasons:
        raise TransientError(
            "some rows cannot be forgotten yet:\n  " + "\n  ".join(reasons),
            hint="see to it that no new ones come, let the streams read on, then type the same again; or with --now, which "
            "computes the tables of these streams anew beside them.",
        )
