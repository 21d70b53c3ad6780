"""The auto-linker: rules that relate, merge and date what memory holds."""
