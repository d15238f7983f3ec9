"""Classic nets made, saved and run by each framework itself: the half of the matrix that is *theirs*.

One script for each framework; ``python -m tests.oracles.matrix.with_mxnet FOLDER NET`` writes the files of a
net into a folder, with ``record.json``: what the framework computes of it, as ``making`` describes. The
matrix (``benchmarks/matrix``) calls the scripts; the records are kept in ``tests/golden/matrix``.
"""
