"""Follow-ups in threads, with a model and without."""
