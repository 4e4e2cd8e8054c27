"""Which campaign an advertisement is of."""

from strandline import Static

from tests.benchmarks.yahoo.ads import CAMPAIGN_OF

CAMPAIGNS = Static(
    name="campaigns",
    columns="ad_id string, campaign_id string",
    key=("ad_id",),
    rows=tuple(CAMPAIGN_OF.items()),
)
