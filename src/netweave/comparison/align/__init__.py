"""Which parts of the two nets stand for each other, each pair with its evidence."""
