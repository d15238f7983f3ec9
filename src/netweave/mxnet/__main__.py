"""``python -m netweave.mxnet SCRIPT`` runs an unchanged script or notebook for MXNet."""

import sys

from netweave.mxnet.hook import run

USAGE = "usage: python -m netweave.mxnet SCRIPT.py|NOTEBOOK.ipynb|-m MODULE [ARGUMENT ...]"


def main() -> None:
    """Run what the command line names."""
    arguments = sys.argv[1:]
    if not [one for one in arguments[:2] if one != "-m"] or arguments[0] in {"-h", "--help"}:
        sys.exit(USAGE)
    run(arguments)


if __name__ == "__main__":
    main()
