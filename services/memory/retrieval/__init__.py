"""Memory as it is read: nodes, words and vectors in RAM, and the search over them."""
