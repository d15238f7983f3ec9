"""Assertions about nets for the tests of a port."""

from netweave.testing.assertions import DifferentNetsError, assert_same_net

__all__ = ["DifferentNetsError", "assert_same_net"]
