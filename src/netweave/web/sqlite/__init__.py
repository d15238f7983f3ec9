"""Django's SQLite with writers that stand in line, on one machine."""
