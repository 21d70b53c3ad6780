"""Writes on their way into memory: read from the log, judged, folded into changes, applied."""
