"""Conversations: what was said, what an answer asked back, and what a short message means after it."""
