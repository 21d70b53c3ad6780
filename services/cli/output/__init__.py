"""Text, tables and JSON as the commands print them."""
