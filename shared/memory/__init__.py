"""The client of the memory daemon: ``Memory`` for agents, plain functions for scripts."""

from shared.memory.client import (
    ClassifyQuery,
    EmbedQuery,
    LinkerQuery,
    Memory,
    ReadQuery,
    RebuildQuery,
    RecallMeasured,
    WriteRefused,
    WrittenQuery,
)
from shared.memory.scripts import add_memory_entry, get_memory_health, search_memory

__all__ = [
    "ClassifyQuery",
    "EmbedQuery",
    "LinkerQuery",
    "Memory",
    "ReadQuery",
    "RebuildQuery",
    "RecallMeasured",
    "WriteRefused",
    "WrittenQuery",
    "add_memory_entry",
    "get_memory_health",
    "search_memory",
]
