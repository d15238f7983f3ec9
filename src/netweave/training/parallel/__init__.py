"""Training in several processes: ranks, the exchange of gradients, and how ranks share a batch."""
