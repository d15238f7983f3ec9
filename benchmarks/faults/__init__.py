"""Faults planted in nets of other people, and what ``netweave compare`` says of them."""
