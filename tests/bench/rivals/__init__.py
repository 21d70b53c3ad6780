"""Workers the office is measured against, each a process of its own."""
