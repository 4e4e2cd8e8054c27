-- The highest price in ten seconds. Read by q7.
--
-- kind: Windowed
-- reads: silver.bids
-- key: window_from
-- window: 10 seconds
-- window_from: window_from
-- closes_at: window_until
-- lateness: late 0 seconds, early 0 seconds, disorder 1 millisecond
-- source_count: bids
SELECT window.start AS window_from, window.end AS window_until, max(price) AS highest, count(*) AS bids
FROM {bids}
GROUP BY window(bid_at, '10 seconds')
