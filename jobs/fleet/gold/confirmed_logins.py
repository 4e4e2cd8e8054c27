"""Each log-in with the second factor that followed within two minutes, or without one.

Grain: one row a log-in and confirmation; an unconfirmed log-in has one row too, without a confirmation.
Reads: silver.user_actions, silver.user_confirmations. Read by: security, which looks at the unconfirmed ones.
Late data: an unconfirmed log-in is emitted once no admitted confirmation can be in time for it any more.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from strandline import Appended

from fleet.silver import user_actions, user_confirmations


def confirmed_logins(actions: DataFrame, confirmations: DataFrame) -> DataFrame:
    """Join each log-in with its confirmations."""
    logins = actions.where(F.col("action") == "login").select(
        "action_id", "user_id", "device_id", F.col("event_at").alias("login_at")
    )
    answers = confirmations.select(
        F.col("action_id").alias("_of"),
        F.col("user_id").alias("_by"),
        "confirmation_id",
        "method",
        F.col("event_at").alias("confirmed_at"),
    )
    belongs = (
        (F.col("action_id") == F.col("_of"))
        & (F.col("user_id") == F.col("_by"))
        & (F.col("confirmed_at") >= F.col("login_at"))
        & (F.col("confirmed_at") <= F.col("login_at") + F.expr("INTERVAL 2 MINUTES"))
    )
    # Spark gives up on a log-in one millisecond after its two minutes, because the last of them still counts.
    gives_up_at = F.col("login_at") + F.expr("INTERVAL '02:00.001' MINUTE TO SECOND")
    return (
        logins.join(answers, belongs, "left_outer")
        .drop("_of", "_by")
        .withColumn("is_confirmed", F.col("confirmation_id").isNotNull())
        .withColumn("closes_at", F.when(~F.col("is_confirmed"), gives_up_at))
    )


TABLE = Appended(
    name="confirmed_logins",
    reads=(user_actions.TABLE, user_confirmations.TABLE),
    transform=confirmed_logins,
    key=("action_id", "confirmation_id"),
    key_null_ok=("confirmation_id",),  # the log-in was not confirmed in time
    event_at="login_at",
    closes_at="closes_at",
)
