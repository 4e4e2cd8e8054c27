-- Query 8, new users: persons who joined and opened an auction in the same ten seconds.
--
-- kind: Appended
-- reads: silver.persons, gold.sellers_10s
-- key: id, window_from
-- event_at: joined_at
SELECT p.id, p.name, p.joined_at, s.window_from
FROM {persons} p JOIN {sellers_10s} s
    ON p.id = s.seller AND p.joined_at >= s.window_from AND p.joined_at < s.window_from + INTERVAL 10 SECONDS
