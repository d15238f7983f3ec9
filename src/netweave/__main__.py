"""``python -m netweave`` is the command ``netweave``."""

from netweave.cli import main

if __name__ == "__main__":
    main()
