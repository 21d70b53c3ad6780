"""The AsyncAPI document of the bus: every subject, what travels on it, and who may send and receive it."""
