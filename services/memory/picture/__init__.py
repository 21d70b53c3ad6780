"""The picture of the graph: which nodes are drawn, and where."""
