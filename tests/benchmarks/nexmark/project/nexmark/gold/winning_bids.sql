-- The winning bid of each auction: the highest, of several the first. Read by q4, q6 and q9.
--
-- That an auction lasts a minute at most is said in the join: from `expires_at` Spark takes no bound. So an auction is final a minute
-- after the ten seconds in which it was opened.
--
-- kind: Windowed
-- reads: silver.auctions, silver.bids
-- key: id, window_from
-- window: 10 seconds
-- window_from: window_from
-- closes_at: final_at
-- event_at: expires_at
-- reach: 1 minute
-- lateness: late 70 seconds, early 0 seconds, disorder 1 millisecond
WITH best AS (
    SELECT a.id, window(a.opened_at, '10 seconds') AS w,
        max_by(struct(a.seller, a.category, a.opened_at, a.expires_at, b.bidder, b.price, b.bid_at, b.extra),
            struct(b.price, -unix_micros(b.bid_at))) AS b
    FROM {auctions} a JOIN {bids} b
        ON a.id = b.auction AND b.bid_at BETWEEN a.opened_at AND a.expires_at
        AND b.bid_at <= a.opened_at + INTERVAL 1 MINUTE
    GROUP BY a.id, window(a.opened_at, '10 seconds')
)
SELECT id, w.start AS window_from, w.end + INTERVAL '60.001' SECOND AS final_at, b.seller, b.category, b.opened_at, b.expires_at,
    b.bidder, b.price, b.bid_at, b.extra
FROM best
