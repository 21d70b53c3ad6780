"""Snapshots of a workspace before each change of it, and undo."""

from shared.sandbox.snapshot.history import Restored, Snapshot, Snapshots

__all__ = ["Restored", "Snapshot", "Snapshots"]
