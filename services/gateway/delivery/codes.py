"""What makes a reply genuine: a token that a mail's id carries, and the code of one request."""

import hmac
import re

from shared.bus import Bus

ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # 32 letters and digits that nobody takes for another
LENGTH = 6  # Of a code: one of 2**30, of which MAX_WRONG are tried
MAX_WRONG = 5  # Wrong codes after which a request cannot be answered this way any more
LIFE = 24 * 3_600.0  # Seconds for which a code counts
_CODE = re.compile(rf"[{ALPHABET}]{{{LENGTH}}}", re.IGNORECASE)


class Codes:
    """Tokens and codes follow from the gateway's key and the delivery: a mail sent again has the same."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def token(self, delivery_id: str) -> str:
        """What an answer to this delivery brings back: 16 hexadecimal digits."""
        return self._bus.derive_id("delivery-token", delivery_id)[:16]

    def code(self, delivery_id: str) -> str:
        """The code with which this request is answered."""
        number = int(self._bus.derive_id("delivery-code", delivery_id), 16)
        return "".join(ALPHABET[number >> 5 * place & 31] for place in range(LENGTH))

    def is_token(self, delivery_id: str, given: str) -> bool:
        """Whether ``given`` is the token; takes as long for any."""
        return hmac.compare_digest(self.token(delivery_id), given)

    def is_code(self, delivery_id: str, given: str) -> bool:
        """Whether ``given`` is the code, in small or capital letters; takes as long for any."""
        upper = given.upper() if _CODE.fullmatch(given) else ""
        return hmac.compare_digest(self.code(delivery_id), upper)
