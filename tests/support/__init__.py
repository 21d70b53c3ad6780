"""What several tests run on: servers, processes, agents, and local stand-ins for services of the network.

An *office* is the whole system as separate processes, a *team* is agents in the process of the test, and a
*server* is a nats-server without any agents.
"""
