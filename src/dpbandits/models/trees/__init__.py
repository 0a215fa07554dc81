"""Trees of bins: dyadic partitions of the unit cube, posteriors and messages of their nodes."""
