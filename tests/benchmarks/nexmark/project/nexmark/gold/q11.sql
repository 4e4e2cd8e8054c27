-- Query 11, sessions: how many bids a person made in a session, which ends after ten seconds without one.
-- Two that touch are one in Spark, so its gap is a microsecond less.
--
-- kind: Windowed
-- reads: silver.bids
-- key: bidder, session_from
-- window: 1 day
-- window_from: session_from
-- closes_at: session_until
SELECT bidder, count(*) AS bids, session_window.start AS session_from, session_window.end + INTERVAL 1 MICROSECOND AS session_until
FROM {bids}
GROUP BY bidder, session_window(bid_at, '9 seconds 999999 microseconds')
