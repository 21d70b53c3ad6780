"""The bus: the only package that imports nats."""

from shared.bus.claim import Claim
from shared.bus.connection import Bus
from shared.bus.delivery import Delivery
from shared.bus.entry import Entry
from shared.bus.reading import Stored

__all__ = ["Bus", "Claim", "Delivery", "Entry", "Stored"]
