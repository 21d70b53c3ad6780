"""Starting, watching and stopping the processes of an installation."""
