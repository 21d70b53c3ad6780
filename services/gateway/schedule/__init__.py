"""What is going to happen by itself: reminders, briefings, deadlines, the night's queue."""
