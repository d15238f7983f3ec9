"""What a node that is being written means, decoded once for the writers of all frameworks."""
