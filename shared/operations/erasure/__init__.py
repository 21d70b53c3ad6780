"""Erasing, in the log and in files, what a person had forgotten, with the eraser's key."""
