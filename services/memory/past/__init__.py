"""The past of memory: what made each graph version, and the states that a node had."""
