"""``python -m tests.bench.notes``."""

from tests.bench.notes import main

main()
