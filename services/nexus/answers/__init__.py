"""Answers of the front desk from memory, quoted or written by a model."""
