-- Query 9, winning bids: each auction with its winning bid.
--
-- kind: Appended
-- reads: silver.auctions, gold.winning_bids
-- key: id
-- event_at: opened_at
SELECT a.id, a.item_name, a.description, a.initial_bid, a.reserve, a.opened_at, a.expires_at, a.seller, a.category, a.extra,
    w.bidder, w.price, w.bid_at, w.extra AS bid_extra
FROM {auctions} a JOIN {winning_bids} w
    ON a.id = w.id AND w.expires_at BETWEEN a.opened_at AND a.opened_at + INTERVAL 1 MINUTE
