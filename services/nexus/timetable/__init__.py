"""The timetable: reminders, goals on a schedule and the times of briefings; one record an item, one timer."""
