"""Files dropped into a folder become memory: read, split, classified, stored, linked, filed away."""
