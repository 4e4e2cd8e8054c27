-- Query 19, top ten: the ten highest bids of each auction, of equal ones the first.
--
-- kind: Upserted
-- reads: silver.bids
-- key: auction, place
-- event_at: bid_at
-- window_from: shelf
WITH best AS (
    SELECT auction, max_by(struct(bidder, price, channel, url, bid_at, extra), struct(price, -unix_micros(bid_at)), 10) AS highest
    FROM {bids}
    GROUP BY auction
), ranked AS (
    SELECT auction, posexplode(highest) AS (nth, b)
    FROM best
)
SELECT auction, nth + 1 AS place, b.bidder, b.price, b.channel, b.url, b.bid_at, b.extra, timestamp_seconds(auction div 1000) AS shelf
FROM ranked
