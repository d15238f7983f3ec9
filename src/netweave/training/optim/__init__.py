"""Solvers, learning-rate policies and initial values, with the exact rules of each framework.

Names (see ``__init__.pyi``) are loaded when first used, and the rules with the first that is looked up.
"""

from netweave.deferred import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)
