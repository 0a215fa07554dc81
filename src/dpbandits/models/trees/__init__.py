"""Trees of bins: dyadic partitions, posteriors on their nodes, messages between them."""
