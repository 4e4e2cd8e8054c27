"""What a dashboard asks the SQL server about the lake of tests/cli/serving.py, with the answers."""

QUESTIONS = (
    ("SELECT 1", "1"),
    ("SELECT count(*) FROM bronze.device_telemetry", "5"),
    ("SELECT count(*) FROM silver.device_telemetry", "3"),
    ("SELECT count(*) FROM quarantine.device_telemetry", "1"),
    ("SELECT _offset FROM quarantine.user_actions", "8"),
    ("SELECT status FROM resolutions.user_actions", "discarded"),
    ("SELECT max(number) FROM gold.device_signal_10m", "0"),
    (
        "SELECT count(*) FROM `spark_catalog`.`silver`.`user_actions` t WHERE t.action = 'login'",
        "3",
    ),
    ("WITH s AS (SELECT number AS n FROM silver.device_telemetry) SELECT sum(n) FROM s", "3"),
    (
        (
            "SELECT sum(b.number) FROM bronze.device_telemetry b JOIN silver.device_telemetry s"
            " ON b.number = s.number WHERE b.number IN (SELECT number FROM gold.device_signal_10m)"
        ),
        "0",
    ),
    (
        (
            "SELECT max(n) FROM (SELECT row_number() OVER (PARTITION BY action ORDER BY action_id) n"
            " FROM silver.user_actions)"
        ),
        "3",
    ),
    ("SELECT percentile_approx(number, 0.5) FROM silver.device_telemetry", "1"),
    (
        "SELECT max(col) FROM silver.device_telemetry LATERAL VIEW explode(array(1, 2)) t AS col",
        "2",
    ),
    ("SELECT count(*) FROM range(5)", "5"),
    ("SELECT current_user()", "ana"),
    ("SELECT '${env:HOME}${system:user.home}'", "${env:HOME}${system:user.home}"),
)
