"""Worker groups and parameter servers: who does what, what servers do, and how they are reached."""
