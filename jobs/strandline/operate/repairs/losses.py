"""What Kafka removed before it was read is recorded as lost, and its reader goes on behind the gap."""

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.feed import Feed
from strandline.core.table import Ingested
from strandline.engine.quarantine.write import Signed
from strandline.engine.repair.accept_loss import Accepted, accept, accept_of_feed
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.engine.storage.lake import Lake
from strandline.operate import lakes, session
from strandline.operate.listener import Says


def accepted(name: str, because: str, found: Settings, where: Lake, says: Says) -> Accepted:
    """Record what a bronze table or a feed of alerts lost in Kafka, so that it goes on.

    Raises:
        DefinitionError: The name is that of another table, or nothing is lost.
    """
    is_feed = name.startswith(f"{Feed.layer}.")
    table = None if is_feed else catalog.find(name)
    if table is not None and not isinstance(table, Ingested):
        below = ", ".join(each.id for each in table.upstream)
        raise DefinitionError(
            f"{name} reads tables and no topic, so Kafka cannot lose anything of it",
            hint=f"name the bronze table at its begin; it reads {below}.",
            table=name,
        )
    if table is not None:
        where.refuse_missing(table)
    address = lakes.demanded_address(found, where)
    signed = Signed(who=clock.login(), at=clock.now(), why=because)
    says("starting Spark …")
    site = session.site(found, where, address, is_brief=True, says=says)
    try:
        if table is None:
            return accept_of_feed(name.removeprefix(f"{Feed.layer}."), where, site, signed)
        return accept(table, where, site, signed)
    finally:
        site.spark.stop()
