"""Nexus: the front desk."""
