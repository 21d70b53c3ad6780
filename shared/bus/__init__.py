"""The bus: the only package that imports nats."""

from shared.bus.claim import Claim
from shared.bus.connection import Bus
from shared.bus.delivery import Delivery
from shared.bus.direct_get import Stored
from shared.bus.entry import Entry

__all__ = ["Bus", "Claim", "Delivery", "Entry", "Stored"]
