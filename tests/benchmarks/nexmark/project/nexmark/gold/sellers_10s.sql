-- Who opened auctions in ten seconds. Read by q8.
--
-- kind: Windowed
-- reads: silver.auctions
-- key: seller, window_from
-- window: 10 seconds
-- window_from: window_from
-- closes_at: window_until
-- lateness: late 0 seconds, early 0 seconds, disorder 1 millisecond
-- source_count: auctions
SELECT seller, window.start AS window_from, window.end AS window_until, count(*) AS auctions
FROM {auctions}
GROUP BY seller, window(opened_at, '10 seconds')
