-- Query 1, currency: each bid with its price in euros.
--
-- kind: Appended
-- reads: silver.bids
-- key: _topic, _partition, _offset
-- event_at: bid_at
SELECT _topic, _partition, _offset, auction, bidder, CAST(price * 0.908 AS DECIMAL(23, 3)) AS price, bid_at, extra
FROM {bids}
