"""The workbench: nets and comparisons in a browser, and over HTTP for programs (Django)."""
