"""What alert rules look at: four tables of the example. Its rules are in jobs/fleet/rules.

``silver.process_events`` has Sigma's own names. A product (``windows``, ``linux``) chooses nothing: one table holds the starts of
programs of every system.
"""

from strandline import AlertSource

from fleet.silver import dhcp_events, network_connections, process_events, user_actions

SOURCES = (
    AlertSource(
        table=process_events.TABLE,
        fields=process_events.FIELDS,
        entity="Computer",
        categories=("process_creation",),
    ),
    AlertSource(
        table=network_connections.TABLE,
        fields=network_connections.FIELDS,
        entity="src_ip",
        categories=("network_connection", "firewall"),
        names={
            "SourceIp": "src_ip",
            "DestinationIp": "dst_ip",
            "DestinationPort": "dst_port",
        },
    ),
    AlertSource(
        table=dhcp_events.TABLE,
        fields=dhcp_events.FIELDS,
        entity="device_id",
        categories=("dhcp",),
    ),
    AlertSource(
        table=user_actions.TABLE,
        fields=user_actions.FIELDS,
        entity="device_id",
        categories=("authentication",),
        names={"User": "user_id", "Action": "action"},
    ),
)
