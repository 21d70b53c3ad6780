"""The runtime of an agent process: its handlers, dispatcher, task executor and life cycle."""
