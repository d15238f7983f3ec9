"""Training on several devices and machines: ranks, the exchange of gradients, and what a batch means."""
