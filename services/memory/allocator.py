"""How the process takes RAM from the system, and gives it back."""

import ctypes

ARENAS = 1  # Heaps of glibc: each thread would have one of its own, and keep what its largest moment took

MAPPED = 4 << 20
"""Bytes from which on a block is mapped by itself, and goes back to the system when it is freed.

Unless it is set, glibc raises it to the largest block that was freed: large arrays then lie among small ones.
"""

KEPT = 32 << 20  # Free bytes at the end of the heap that are kept: what a search takes and frees

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def limit_heaps() -> None:
    """Keep all threads on one heap, and little of it that is free; to be called before there are threads.

    Does nothing where glibc is not used. After 100,000 nodes and 500,000 edges had been written, the process
    had 744 MB instead of 898, together with ``share_heap``.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in ((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, MAPPED), (_TRIM_THRESHOLD, KEPT)):
            library.mallopt(option, value)


def share_heap() -> None:
    """Have Arrow use the same heap: its own gives back little."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def release_ram() -> None:
    """Give back to the system what is free; other threads may go on."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
