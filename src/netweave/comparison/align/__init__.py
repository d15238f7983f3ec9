"""Alignment: pairs of corresponding parts of two nets, each with its evidence."""
