-- When bids arrived. Read by q12.
--
-- The time of processing is in no row, and a computation by it could not be repeated. The arrival in Kafka is its nearest kin that is.
--
-- kind: Appended
-- reads: silver.bids
-- key: _topic, _partition, _offset
-- event_at: arrived_at
-- lateness: late 1 second, early 0 seconds, disorder 1 second
SELECT _topic, _partition, _offset, bidder, _arrived_at AS arrived_at
FROM {bids}
