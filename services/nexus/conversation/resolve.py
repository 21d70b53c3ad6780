"""What a message means in its conversation: a short one becomes the whole message that it stands for."""

from datetime import datetime

from services.nexus.conversation.pending import settle
from services.nexus.conversation.resolved import Resolved
from shared.contracts import Conversation


def resolve(text: str, conversation: Conversation, now: datetime, *, with_model: bool = False) -> Resolved:
    """The whole message that ``text`` stands for, which is then routed as any other.

    It is ``text`` itself unless it answers what was asked back, or refers to what was said. A model reads the
    conversation itself: ``with_model`` only what was asked back is settled, and what was named by number.
    """
    settled = settle(text, conversation.asks) if conversation.asks else None
    return settled or Resolved(text=text)
