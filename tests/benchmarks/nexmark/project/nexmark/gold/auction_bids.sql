-- Bids that came while their auction was open. Read by winning_bids.
--
-- That an auction lasts a minute at most is said in the join: from `expires_at` Spark takes no bound.
--
-- kind: Appended
-- reads: silver.auctions, silver.bids
-- key: _topic, _partition, _offset
-- event_at: opened_at
-- lateness: late 70 seconds, early 0 seconds, disorder 1 millisecond
SELECT b._topic, b._partition, b._offset, a.id, a.seller, a.category, a.opened_at, a.expires_at, b.bidder, b.price, b.bid_at, b.extra
FROM {auctions} a JOIN {bids} b
    ON a.id = b.auction AND b.bid_at BETWEEN a.opened_at AND a.expires_at
    AND b.bid_at <= a.opened_at + INTERVAL 1 MINUTE
