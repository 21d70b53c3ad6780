"""Reading other people's source: bounded, and without running any of it."""
