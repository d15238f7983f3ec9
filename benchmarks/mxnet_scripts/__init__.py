"""MXNet's own example scripts with one line changed: which run over ``netweave.mxnet``, and why others not.

The scripts are not part of this repository: give folders of MXNet releases, each with its ``example``.
Each script runs twice in a scratch folder, on small generated data: as it is under MXNet 1.9.1, and
with ``mxnet`` replaced in its import lines under Netweave. Only scripts that MXNet itself runs count.

    python -m benchmarks mxnet_scripts RELEASE... --mxnet PYTHON [--count 100 --seed 18] [--symbols]
"""
