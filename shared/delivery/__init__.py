"""Channels by which people are told what happens: their settings, and what each speaks."""
