"""Training on several ranks over slow links."""
