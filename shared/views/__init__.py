"""What the gateway answers with: one description of each thing, for the page and for commands."""
