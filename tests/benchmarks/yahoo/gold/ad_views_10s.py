"""Views of advertisements by campaign.

Grain: one row a campaign and ten seconds of event time.
Reads: silver.ad_events, static.campaigns. Read by: dashboards.
Late data: a window is final when no admitted event can fall into it any more.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import Windowed

from tests.benchmarks.yahoo.campaigns import CAMPAIGNS
from tests.benchmarks.yahoo.silver import ad_events


def ad_views_10s(events: DataFrame) -> DataFrame:
    """Count the views of each campaign."""
    views = CAMPAIGNS.joined(events.where("event_type = 'view'"), at="event_at")
    counted = views.groupBy("campaign_id", F.window("event_at", "10 seconds").alias("w"))
    return counted.agg(F.count("*").alias("views")).selectExpr(
        "campaign_id", "w.start AS window_from", "w.end AS window_until", "views"
    )


TABLE = Windowed(
    name="ad_views_10s",
    reads=(ad_events.TABLE,),
    transform=ad_views_10s,
    key=("campaign_id", "window_from"),
    key_null_ok=("campaign_id",),
    window="10 seconds",
    window_from="window_from",
    closes_at="window_until",
    static=(CAMPAIGNS,),
)
