-- The winning bid of each auction: the highest, of several the first. Read by q4, q6 and q9.
--
-- An auction is final a minute after the ten seconds in which it was opened.
--
-- kind: Windowed
-- reads: gold.auction_bids
-- key: id, window_from
-- window: 10 seconds
-- window_from: window_from
-- closes_at: window_until
-- event_at: expires_at
-- lateness: late 70 seconds, early 0 seconds, disorder 1 millisecond
-- source_count: bids
WITH best AS (
    SELECT id, window(opened_at, '10 seconds') AS w, count(*) AS bids,
        max_by(struct(seller, category, opened_at, expires_at, bidder, price, bid_at, extra), struct(price, -unix_micros(bid_at))) AS b
    FROM {auction_bids}
    GROUP BY id, window(opened_at, '10 seconds')
)
SELECT id, w.start AS window_from, w.end AS window_until, bids, b.seller, b.category, b.opened_at, b.expires_at, b.bidder, b.price,
    b.bid_at, b.extra
FROM best
