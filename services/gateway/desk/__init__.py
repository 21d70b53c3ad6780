"""Conversations with the front desk, as the log has them."""
