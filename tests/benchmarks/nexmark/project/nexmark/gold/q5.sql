-- Query 5, hot items: the auctions with the most bids in ten seconds, every two seconds.
--
-- kind: Windowed
-- reads: silver.bids
-- key: auction, window_from
-- window: 10 seconds
-- window_from: window_from
-- closes_at: window_until
WITH counts AS (
    SELECT auction, window(bid_at, '10 seconds', '2 seconds') AS w, count(*) AS bids
    FROM {bids}
    GROUP BY auction, window(bid_at, '10 seconds', '2 seconds')
), tops AS (
    SELECT w, max(bids) AS most, array_sort(collect_list(struct(bids, auction))) AS counts
    FROM counts
    GROUP BY w
)
SELECT w.start AS window_from, w.end AS window_until, most AS bids,
    explode(transform(filter(counts, each -> each.bids = most), each -> each.auction)) AS auction
FROM tops
