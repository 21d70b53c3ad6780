"""Reminders: times in words, recurrence, and the records of what is due."""
