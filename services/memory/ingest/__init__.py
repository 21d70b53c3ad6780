"""The import of files from a folder: parsed, split, classified, stored, linked, moved away."""
