"""Connections that carry more out than is usual, and bring less in, to ports that are not.

The label is what was found out later: the far ends to which data was carried off (``PLANTED`` in jobs/fleet/play/network.py
in the example; a list of addresses elsewhere). The address is no feature: the next one is not on the list.
"""

from strandline import Demand, Feature, Logistic, Model

from fleet.gold import traffic_scores

MODEL = Model(
    name="unusual_traffic",
    about="A connection carries data off",
    of=traffic_scores.TABLE,
    features=(
        Feature(name="kilobytes_out", sql="try_divide(bytes_out, 1000)"),
        Feature(name="kilobytes_in", sql="try_divide(bytes_in, 1000)"),
        Feature(name="is_remote_shell", sql="dst_port = 22"),
    ),
    label="startswith(dst_ip, '203.0.113.')",
    estimator=Logistic(),
    alerts=True,
    check=(
        Demand(metric="rows", least=500),
        Demand(metric="positives", least=10),
        Demand(metric="precision", least=0.6),
        Demand(metric="recall", least=0.4),
        Demand(metric="flagged", most=0.05),
    ),
)
