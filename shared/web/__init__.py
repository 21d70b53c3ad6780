"""The way to the web: what may be fetched, how it is fetched, and how what came is handed on."""
