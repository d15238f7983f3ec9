"""Isolation of users, and protection from uploads: headers, limits, names of files."""

from netweave.web.safety.headers import headers
from netweave.web.safety.limits import TooManyError, client, count, counted

__all__ = ["TooManyError", "client", "count", "counted", "headers"]
