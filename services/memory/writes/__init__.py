"""Writes: read from the log, checked by the gate, folded into one change a batch, applied and answered."""
