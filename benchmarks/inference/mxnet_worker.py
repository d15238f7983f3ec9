"""A net on MXNet: ``python mxnet_worker.py PREFIX BATCH CxHxW OUTPUT``; needs no Netweave."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import mxnet as mx
import protocol

if TYPE_CHECKING:
    import numpy as np


def main() -> None:
    """Bind the net and serve."""
    prefix, batch, image, output = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    x = protocol.draw(batch, tuple(map(int, image.split("x"))))
    began = time.perf_counter()
    symbol, arguments, states = mx.model.load_checkpoint(prefix, 0)
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", x.shape)], for_training=False)
    module.set_params(arguments, states)
    data = mx.io.DataBatch([mx.nd.array(x)])

    def run() -> np.ndarray:
        module.forward(data, is_train=False)
        found: np.ndarray = module.get_outputs()[0].asnumpy()
        return found

    protocol.serve(run, output, name=f"MXNet {mx.__version__}", start_s=time.perf_counter() - began)


if __name__ == "__main__":
    main()
