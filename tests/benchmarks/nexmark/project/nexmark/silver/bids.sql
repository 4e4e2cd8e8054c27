-- Bids. They have no id of their own, so each record is one.
--
-- kind: Judged
-- reads: bronze.bids
-- fields: auction bigint, bidder bigint, price bigint, channel string, url string, bid_at timestamp, extra string
-- key: _topic, _partition, _offset
-- event_at: bid_at
-- lateness: late 4 seconds, early 1 second, disorder 1 second
-- rules: required(auction, bidder, price, bid_at)
SELECT * FROM {bids}
