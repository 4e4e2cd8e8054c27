-- Query 2, selection: bids on some auctions.
--
-- kind: Appended
-- reads: silver.bids
-- key: _topic, _partition, _offset
-- event_at: bid_at
SELECT _topic, _partition, _offset, auction, price, bid_at
FROM {bids}
WHERE auction % 123 = 0
