"""What people write, read once: its words, its times, and ways to say a thing, which are rows of files."""
