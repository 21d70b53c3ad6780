"""Plans and carries out work of several steps, in three modes; writes and runs code; the overnight queue."""
