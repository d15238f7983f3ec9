"""Nets in fewer bits against their float version, and faults of quantisation planted in them; see ``run``."""
