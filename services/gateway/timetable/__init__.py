"""What is going to happen by itself: reminders, goals, briefings, deadlines, the night's queue."""
