"""Trees of bins: dyadic partitions, posteriors of their nodes, and messages between nodes."""
