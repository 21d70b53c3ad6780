"""Texts to vectors, by the model that comes along or by another."""
