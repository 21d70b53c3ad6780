"""Webhooks: programs elsewhere submit goals, and are told what happens."""
