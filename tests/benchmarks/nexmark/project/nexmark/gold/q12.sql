-- Query 12, windows by processing: how many bids of a person arrived in ten seconds.
--
-- kind: Windowed
-- reads: gold.arrivals
-- key: bidder, window_from
-- window: 10 seconds
-- window_from: window_from
-- closes_at: window_until
-- source_count: bids
SELECT bidder, count(*) AS bids, window.start AS window_from, window.end AS window_until
FROM {arrivals}
GROUP BY bidder, window(arrived_at, '10 seconds')
