-- Query 7, highest bid: the bids with the highest price of their ten seconds; as in NEXMark, the end of a window counts too.
--
-- kind: Appended
-- reads: silver.bids, gold.highest_10s
-- key: _topic, _partition, _offset, window_from
-- event_at: bid_at
SELECT b._topic, b._partition, b._offset, b.auction, b.bidder, b.price, b.bid_at, b.extra, h.window_from
FROM {bids} b JOIN {highest_10s} h
    ON b.price = h.highest AND b.bid_at BETWEEN h.window_from AND h.window_from + INTERVAL 10 SECONDS
