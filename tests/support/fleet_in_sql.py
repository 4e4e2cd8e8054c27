"""Five gold tables of the example, written again in SQL: by another hand, what their rows are is the same."""

from dataclasses import replace

from strandline import sql

from fleet.gold import (
    confirmed_logins,
    device_daily,
    device_signal_10m,
    site_traffic_1h,
    traffic_scores,
)

SIGNALS = replace(
    device_signal_10m.TABLE,
    transform=sql("""
        SELECT device_id, signal, window.start AS window_from, window.end AS window_until,
            count(*) AS readings, min(value) AS min_value, max(value) AS max_value, avg(value) AS avg_value,
            array_sort(collect_list(value))[(count(value) * 95 + 99) div 100 - 1] AS p95_value
        FROM {device_telemetry}
        GROUP BY device_id, signal, window(event_at, '10 minutes')
    """),
)

LOGINS = replace(
    confirmed_logins.TABLE,
    transform=sql("""
        SELECT a.action_id, a.user_id, a.device_id, a.event_at AS login_at, c.confirmation_id, c.method,
            c.event_at AS confirmed_at, c.confirmation_id IS NOT NULL AS is_confirmed,
            CASE WHEN c.confirmation_id IS NULL THEN a.event_at + INTERVAL '02:00.001' MINUTE TO SECOND END AS closes_at
        FROM {user_actions} a LEFT JOIN {user_confirmations} c
            ON a.action_id = c.action_id AND a.user_id = c.user_id
            AND c.event_at >= a.event_at AND c.event_at <= a.event_at + INTERVAL 2 MINUTES
        WHERE a.action = 'login'
    """),
)

TRAFFIC = replace(
    site_traffic_1h.TABLE,
    transform=sql("""
        SELECT site, window.start AS window_from, window.end AS window_until, count(*) AS connections,
            sum(CAST(bytes_out AS decimal(19, 0))) AS bytes_out, sum(CAST(bytes_in AS decimal(19, 0))) AS bytes_in
        FROM (
            SELECT coalesce(d.site, 'unknown') AS site, c.event_at, c.bytes_out, c.bytes_in
            FROM {attributed_connections} c LEFT JOIN {devices} d ON c.device_id = d.device_id
                AND d.valid_from <= c.event_at AND (d.valid_until IS NULL OR c.event_at < d.valid_until)
        )
        GROUP BY site, window(event_at, '1 hour', '10 minutes')
    """),
)

DAILY = replace(
    device_daily.TABLE,
    transform=sql("""
        WITH zones AS (
            SELECT * FROM VALUES ('berlin', 'Europe/Berlin'), ('boston', 'America/New_York'), ('nairobi', 'Africa/Nairobi'),
                ('osaka', 'Asia/Tokyo'), ('lima', 'America/Lima') AS of_sites(site, zone)
        ), placed AS (
            SELECT w.device_id, w.signal, w.window_from, w.readings, w.min_value, w.max_value, d.site,
                coalesce(zones.zone, 'UTC') AS zone
            FROM {gold.device_signal_10m} w
            LEFT JOIN {devices} d ON w.device_id = d.device_id
                AND d.valid_from <= w.window_from AND (d.valid_until IS NULL OR w.window_from < d.valid_until)
            LEFT JOIN zones ON zones.site = d.site
        ), days AS (
            SELECT *, CAST(date_trunc('day', from_utc_timestamp(window_from, zone)) AS date) AS day FROM placed
        )
        SELECT device_id, signal, site, zone, day, sum(readings) AS readings, min(min_value) AS min_value,
            max(max_value) AS max_value, count(*) AS windows, to_utc_timestamp(CAST(day AS timestamp), zone) AS day_from
        FROM days
        GROUP BY device_id, signal, site, zone, day
    """),
)

SCORES = replace(
    traffic_scores.TABLE,
    transform=sql("""
        SELECT connection_id, src_ip, dst_ip, dst_port, bytes_out, bytes_in, event_at FROM {network_connections}
    """),
)
