"""Functions that a written file defines for itself, where Keras has neither a layer nor a function.

They are made of ``keras.ops``, so that a model that is saved needs the file no more.
"""

from __future__ import annotations

FUNCTIONS = {
    "local_response_norm": '''def local_response_norm(x, size, alpha, beta, bias):
    """Divide by the energy of the channels around each one, for which Keras has no layer."""
    before = (size - 1) // 2
    squares = ops.pad(ops.square(x), ((0, 0), (0, 0), (0, 0), (before, size - 1 - before)))
    energy = sum(squares[..., first : first + x.shape[-1]] for first in range(size))
    return x / ops.power(bias + alpha / size * energy, beta)
''',
}
"""Their text by their names."""
