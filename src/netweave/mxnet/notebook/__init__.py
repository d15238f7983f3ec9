"""``mx.notebook``: callbacks that keep curves."""
