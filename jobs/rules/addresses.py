r"""Addresses as hexadecimal digits, so that a network is a prefix: eight digits for IPv4, 32 for IPv6.

One text form would not do. An IPv6 address has many spellings (``::1``, ``0:0:0:0:0:0:0:1``, ``::FFFF:10.0.0.1``), and
the prefixes that pySigma offers match some addresses outside of the network, as its own documentation says. So Spark's
own functions write each address out once per event; a user-defined function is not possible in real-time mode.
"""

from ipaddress import IPv4Network, IPv6Network, ip_address

OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = rf"'\\A{OCTET}(?:[.]{OCTET}){{3}}\\z'"
IPV6 = r"'\\A[0-9a-f:]{2,39}\\z'"
GROUP = r"'\\A[0-9a-f]{1,4}\\z'"
GROUPS = 8


def hexadecimal(text: str) -> str:
    """Return SQL for the digits of an address; NULL for what is none.

    Args:
        text: SQL for the address.
    """
    plain = f"lower(split_part({text}, '%', 1))"  # fe80::1%eth0 names a zone
    tail = f"substring_index({plain}, ':', -1)"
    spelled = (
        f"concat(left({plain}, length({plain}) - length({tail})), "
        f"left({_ipv4(tail)}, 4), ':', right({_ipv4(tail)}, 4))"
    )
    is_mapped = f"contains({plain}, ':') AND {tail} RLIKE {IPV4}"
    return (
        f"CASE WHEN {text} RLIKE {IPV4} THEN {_ipv4(text)} "
        f"WHEN {is_mapped} THEN {_ipv6(spelled)} "
        f"WHEN {plain} RLIKE {IPV6} THEN {_ipv6(plain)} END"
    )


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


def _ipv6(text: str) -> str:
    """Return SQL for 32 digits of hexadecimal groups, with what ``::`` leaves out; NULL for what is no address."""
    left, right = (f"split_part({text}, '::', {n})" for n in (1, 2))
    count = f"({_groups(left)} + {_groups(right)})"
    gap = f"repeat('0:', {GROUPS} - {count})"
    filled = f"concat({left}, if({left} = '', '', ':'), {gap}, {right})"
    has_gap = f"contains({text}, '::')"
    whole = f"if({has_gap}, rtrim(':', {filled}), {text})"
    groups = (f"split_part({whole}, ':', {n})" for n in range(1, GROUPS + 1))
    written = ", ".join(f"if({g} RLIKE {GROUP}, lpad({g}, 4, '0'), NULL)" for g in groups)
    is_whole = f"if({has_gap}, {count} < {GROUPS}, {_groups(text)} = {GROUPS})"
    gaps = f"length({text}) - length(replace({text}, '::'))"
    is_spelled = f"{gaps} <= 2 AND NOT contains({text}, ':::')"
    return f"if({is_whole} AND {is_spelled}, concat({written}), NULL)"


def _groups(text: str) -> str:
    """Return SQL for how many groups a text has."""
    return f"if({text} = '', 0, length({text}) - length(replace({text}, ':')) + 1)"
