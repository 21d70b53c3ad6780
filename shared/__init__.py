"""The library the services stand on: contracts, bus, runtime, skills."""
