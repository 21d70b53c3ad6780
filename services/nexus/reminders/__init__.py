"""What people say about times and reminders, read: moments, what repeats, and what is wanted."""
