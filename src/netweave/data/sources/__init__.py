"""The kinds of sources, one module each; see ``data.source`` for the table."""
