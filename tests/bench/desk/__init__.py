"""Everyday messages to the front desk: how many are understood, and how many have a wrong effect."""
