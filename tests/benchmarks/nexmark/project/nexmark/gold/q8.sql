-- Query 8, new users: persons who joined and opened an auction in the same ten seconds.
--
-- kind: Appended
-- reads: silver.persons, silver.auctions
-- key: id, window_from
-- event_at: window_from
-- closes_at: window_until
WITH joined AS (
    SELECT id, name, window(joined_at, '10 seconds') AS w
    FROM {persons}
    GROUP BY id, name, window(joined_at, '10 seconds')
), opened AS (
    SELECT seller, window(opened_at, '10 seconds') AS w
    FROM {auctions}
    GROUP BY seller, window(opened_at, '10 seconds')
)
SELECT j.id, j.name, j.w.start AS window_from, j.w.end AS window_until
FROM joined j JOIN opened o ON j.id = o.seller AND j.w = o.w
