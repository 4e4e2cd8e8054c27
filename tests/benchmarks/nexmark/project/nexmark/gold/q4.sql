-- Query 4, average price: the average of the winning prices of each category.
--
-- kind: Upserted
-- reads: gold.winning_bids
-- key: category
-- event_at: last_at
-- window_from: window_from
SELECT category, count(*) AS auctions, sum(price) div count(*) AS average, max(expires_at) AS last_at, timestamp'1970-01-01' AS window_from
FROM {winning_bids}
GROUP BY category
