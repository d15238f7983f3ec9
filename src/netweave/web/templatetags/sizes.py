"""Sizes of files, written as on the command line."""

from __future__ import annotations

from django import template

from netweave import api

register = template.Library()


@register.filter
def bytes_text(num_bytes: int | None) -> str:
    """Return a number of bytes for people; a sum over no files is None."""
    return api.bytes_text(num_bytes or 0)


@register.filter
def mib_text(num_mib: int) -> str:
    """Return a limit of the operator's, which is set in MiB."""
    return api.bytes_text(num_mib << 20)
