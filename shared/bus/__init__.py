"""The bus: the only package that imports nats."""

from shared.bus.claim import Claim
from shared.bus.connection import Bus
from shared.bus.entry import Delivery, Entry, Stored

__all__ = ["Bus", "Claim", "Delivery", "Entry", "Stored"]
