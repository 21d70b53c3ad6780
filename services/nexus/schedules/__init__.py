"""What people say about goals on a schedule and the night, read: times, commands, and the goal."""
