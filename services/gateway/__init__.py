"""The gateway: an HTTP API, live events and the dashboard."""
