"""Which IP addresses belong to the public internet."""

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

REFUSED = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure's platform channel: a public number, reachable only from inside
            "192.0.0.0/24",  # RFC 6890: IETF protocol assignments
            "192.88.99.0/24",  # RFC 7526: relays of 6to4
            "2001::/23",  # RFC 2928: protocol assignments, Teredo among them, which carries an IPv4 address
            "2002::/16",  # RFC 3056: 6to4, which carries an IPv4 address
            "3fff::/20",  # RFC 9637: documentation
        ),
    )
)
"""Networks refused beside those that IANA's registries list as not global."""

UNICAST = ipaddress.ip_network("2000::/3")
"""RFC 4291: all of IPv6 that is routed between networks; what maps or translates IPv4 lies outside."""

ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214: the middle of interface identifiers that carry an IPv4 address


def parse_ip(host: str) -> Address | None:
    """``host`` as an IP address, None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public internet."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if any(address.version == network.version and address in network for network in REFUSED):
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    return address in UNICAST and (int(address) >> 32) & 0xFFFFFFFF not in ISATAP
