"""The command line: parse, call the API, show."""


def main() -> None:
    """Run the command ``netweave``."""
