"""Writes the generated pages: ``python -m tools.docs``; a test says when one is stale.

One file per kind of page, each with functions from nothing to Markdown; ``PAGES`` says where they go.
"""
