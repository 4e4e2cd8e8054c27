-- How many bids each auction had in ten seconds, every two seconds. Read by q5.
--
-- kind: Windowed
-- reads: silver.bids
-- key: auction, window_from
-- window: 10 seconds
-- window_from: window_from
-- closes_at: window_until
-- lateness: late 0 seconds, early 0 seconds, disorder 1 millisecond
SELECT auction, window.start AS window_from, window.end AS window_until, count(*) AS bids
FROM {bids}
GROUP BY auction, window(bid_at, '10 seconds', '2 seconds')
