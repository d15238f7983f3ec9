"""Nets of Keras 2 and 3: ``.keras``, ``.h5``, and JSON beside weights; without Keras. Its code, with it.

The way of the data: ``opening`` finds the configuration and the arrays, ``config`` makes calls of layers of
it, ``reader`` walks them in ``order`` and gives each to its function in ``layers/`` with a ``call.Call``;
``weights`` knows how each age of files stores arrays. ``child`` builds the model of code and saves it, with
layers of the code's own followed by ``functional``; ``traced`` traces what cannot be followed. Layers are
written with channels first by ``formats/lowering/channels_last``.
To add a layer see docs/how-to/add-a-keras-layer.md.
"""

from netweave.formats.keras.opening import match

__all__ = ["match"]
