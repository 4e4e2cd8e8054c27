-- Query 3, local items: who sells in Oregon, Idaho or California in category 10, and which auctions.
--
-- Nothing bounds how long after a person joined an auction is opened, so both wait for ever.
--
-- kind: Appended
-- reads: silver.auctions, silver.persons
-- key: id
-- event_at: opened_at
SELECT p.name, p.city, p.state, a.id, a.opened_at
FROM {auctions} a JOIN {persons} p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
