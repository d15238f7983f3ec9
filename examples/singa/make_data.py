"""Writes the digits that the MLP learns from, as ``make create`` of SINGA does: two files ``*_data.bin``.

    python make_data.py                  # scikit-learn's 1,797 digits, enlarged from 8 x 8 to 28 x 28
    python make_data.py --mnist FOLDER   # the 70,000 of MNIST, where its four idx files are at hand

The split is that of ``examples/lenet``. With MNIST set ``test_steps: 166`` in ``job.conf``.
"""

from __future__ import annotations

from pathlib import Path

from examples.lenet import make_data

HERE = Path(__file__).parent


def write(folder: Path, mnist: Path | None = None) -> None:
    """Write both stores into a folder; those that are there are left alone."""
    make_data.write(folder, mnist, ending="_data.bin", kind="kvfile")


if __name__ == "__main__":
    write(HERE, make_data.folder_of_mnist(__doc__))
