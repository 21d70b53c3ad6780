"""What a workspace held before each thing done to it, and the way back there."""

from shared.sandbox.snapshot.history import Restored, Snapshot, Snapshots

__all__ = ["Restored", "Snapshot", "Snapshots"]
