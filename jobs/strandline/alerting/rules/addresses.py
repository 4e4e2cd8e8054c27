r"""Addresses as hexadecimal digits, so that a network is a prefix: eight digits for IPv4, 32 for IPv6.

One text form would not do. An IPv6 address has many spellings (``::1``, ``0:0:0:0:0:0:0:1``, ``::FFFF:10.0.0.1``), and
the prefixes that pySigma offers match some addresses outside of the network, as its own documentation says. So Spark's
own functions write each address out once per event; a user-defined function is not possible in real-time mode.
"""

from collections.abc import Callable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address

OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"'\\A{OCTET}(?:[.]{OCTET}){{3}}\\z'"
IPV6 = r"'\\A[0-9a-f:]{2,39}\\z'"
GROUP = r"'\\A[0-9a-f]{1,4}\\z'"
GROUPS = 8


def steps(text: str, column: Callable[[str], str]) -> Iterator[dict[str, str]]:
    """Yield columns, by name, that are added one step after the other; the last is ``column("")``, NULL for no address.

    In one expression each part would be written out wherever it is read: 235,000 characters of SQL, and Spark took two
    minutes for the examples of ten rules.

    Args:
        text: SQL for the address.
        column: Returns the name of the column for a part.
    """
    plain, tail, four, six, left, right, whole = map(
        column, ("plain", "tail", "four", "six", "left", "right", "whole")
    )
    yield {plain: f"lower(split_part({text}, '%', 1))"}  # fe80::1%eth0 names a zone
    yield {tail: f"substring_index({plain}, ':', -1)"}
    is_four = f"{text} RLIKE {IPV4}"
    is_mapped = f"contains({plain}, ':') AND {tail} RLIKE {IPV4}"
    yield {four: f"CASE WHEN {is_four} OR ({is_mapped}) THEN {_ipv4(tail)} END"}
    head = f"left({plain}, length({plain}) - length({tail}))"
    spelled = f"concat({head}, left({four}, 4), ':', right({four}, 4))"
    yield {
        six: f"CASE WHEN {is_four} THEN NULL WHEN {four} IS NOT NULL THEN {spelled} "
        f"WHEN {plain} RLIKE {IPV6} THEN {plain} END"
    }
    yield {left: f"split_part({six}, '::', 1)", right: f"split_part({six}, '::', 2)"}
    count = f"({_groups(left)} + {_groups(right)})"
    filled = f"concat({left}, if({left} = '', '', ':'), repeat('0:', {GROUPS} - {count}), {right})"
    has_gap = f"contains({six}, '::')"
    yield {whole: f"if({has_gap}, rtrim(':', {filled}), {six})"}
    is_whole = f"if({has_gap}, {count} < {GROUPS}, {_groups(six)} = {GROUPS})"
    gaps = f"length({six}) - length(replace({six}, '::'))"
    is_spelled = f"{gaps} <= 2 AND NOT contains({six}, ':::')"
    digits = f"if({is_whole} AND {is_spelled}, {_written(whole)}, NULL)"
    yield {column(""): f"CASE WHEN {six} IS NOT NULL THEN {digits} ELSE {four} END"}


def is_in(digits: str, network: IPv4Network | IPv6Network) -> str:
    """Return SQL for whether the digits of an address lie in a network; NULL where there are none."""
    length = network.max_prefixlen // 4
    whole, rest = divmod(network.prefixlen, 4)
    prefix = f"{int(network.network_address):0{length}x}"
    found = [f"length({digits}) = {length}"]
    if whole:
        found.append(f"startswith({digits}, '{prefix[:whole]}')")
    if rest:
        start = int(prefix[whole], 16)
        allowed = ", ".join(f"'{each:x}'" for each in range(start, start + (1 << (4 - rest))))
        found.append(f"substring({digits}, {whole + 1}, 1) IN ({allowed})")
    return f"({' AND '.join(found)})"


def contains(text: str, network: IPv4Network | IPv6Network) -> bool:
    """Return whether an address lies in a network, in Python."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return address.version == network.version and address in network


def _ipv4(text: str) -> str:
    octets = (f"try_cast(split_part({text}, '.', {n}) AS INT)" for n in range(1, 5))
    digits = ", ".join(f"lpad(lower(hex({octet})), 2, '0')" for octet in octets)
    return f"concat({digits})"


def _written(whole: str) -> str:
    """Return SQL for 32 digits of eight hexadecimal groups; NULL where one is none."""
    groups = (f"split_part({whole}, ':', {n})" for n in range(1, GROUPS + 1))
    written = ", ".join(f"if({g} RLIKE {GROUP}, lpad({g}, 4, '0'), NULL)" for g in groups)
    return f"concat({written})"


def _groups(text: str) -> str:
    """Return SQL for how many groups a text has."""
    return f"if({text} = '', 0, length({text}) - length(replace({text}, ':')) + 1)"
