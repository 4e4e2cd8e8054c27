-- Query 18, last bid: the last bid of each person on each auction.
--
-- The table has no windows; neighbouring auctions share a file, so that a batch rewrites those of the auctions that it has.
--
-- kind: Upserted
-- reads: silver.bids
-- key: bidder, auction
-- event_at: bid_at
-- window_from: shelf
WITH last AS (
    SELECT bidder, auction, max_by(struct(price, channel, url, bid_at, extra), bid_at) AS b
    FROM {bids}
    GROUP BY bidder, auction
)
SELECT bidder, auction, b.price, b.channel, b.url, b.bid_at, b.extra, timestamp_seconds(auction div 1000) AS shelf
FROM last
