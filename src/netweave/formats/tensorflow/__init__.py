"""Nets of TensorFlow: frozen graphs, MetaGraphs with checkpoints, SavedModels; without TensorFlow.

The way of the data: ``opening`` finds out what a file is and opens it by ``schema``, ``nodes`` makes nodes of
ours, ``outputs`` finds what is computed, ``patterns`` joins what TensorFlow writes as many nodes, and
``interpreter`` reads the nodes in order, functions included, each by its function in ``operators/`` with a
``call.Call``. ``variables`` gives stored arrays (``bundle`` and ``table`` read checkpoints), ``folding``
computes sizes. To add an operator see docs/how-to/add-a-tensorflow-operator.md.
"""

from netweave.formats.tensorflow.opening import match

__all__ = ["match"]
