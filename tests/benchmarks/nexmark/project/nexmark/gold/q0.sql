-- Query 0, pass through: each bid.
--
-- kind: Appended
-- reads: silver.bids
-- key: _topic, _partition, _offset
-- event_at: bid_at
SELECT _topic, _partition, _offset, auction, bidder, price, channel, url, bid_at, extra
FROM {bids}
