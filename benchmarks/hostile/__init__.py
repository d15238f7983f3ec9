"""Nets and data from strangers: a fuzzer over every reader and every source of records."""
