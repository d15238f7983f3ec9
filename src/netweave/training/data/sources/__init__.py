"""The kinds of sources, one module each; see ``training.data.source`` for the table."""
