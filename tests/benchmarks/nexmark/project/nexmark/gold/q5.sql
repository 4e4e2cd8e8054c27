-- Query 5, hot items: the auctions with the most bids in ten seconds, every two seconds.
--
-- Windows begin every two seconds, so the counts of one are in two seconds of their begins.
--
-- kind: Windowed
-- reads: gold.auction_counts
-- key: auction, window_from
-- window: 2 seconds
-- window_from: window_from
-- closes_at: closes_at
WITH tops AS (
    SELECT window(window_from, '2 seconds') AS w, max(bids) AS most, array_sort(collect_list(struct(bids, auction))) AS counts
    FROM {auction_counts}
    GROUP BY window(window_from, '2 seconds')
)
SELECT w.start AS window_from, w.end AS closes_at, w.start + INTERVAL 10 SECONDS AS window_until, most AS bids,
    explode(transform(filter(counts, each -> each.bids = most), each -> each.auction)) AS auction
FROM tops
