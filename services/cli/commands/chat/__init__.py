"""Conversations with the front desk: the line one writes in, the answer as it is made, and the sessions."""
