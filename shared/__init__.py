"""The packages that all services are built on: contracts, bus, agent runtime, skills."""
