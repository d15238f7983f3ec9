"""Let MXNet train LeNet on scikit-learn's digits, and write its losses and accuracies.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.mxnet_lenet .../sklearn/datasets/data/digits.csv.gz

Writes ``tests/golden/mxnet_lenet.json``: for each seed the loss of the first steps, and the share of the
digits kept back that it gets right in the end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mxnet as mx
import numpy as np

from tests.oracles import golden, lenet

GOLDEN = Path(__file__).parent.parent / "golden" / "mxnet_lenet.json"
SHOWN = 10


class Inv(mx.lr_scheduler.LRScheduler):  # type: ignore[misc]  # MXNet has no types
    """Caffe's policy of that name; MXNet counts updates from 1."""

    def __call__(self, num_update: int) -> float:
        """Return the rate of an update."""
        return lenet.rate(num_update - 1)


def net() -> Any:
    """Return LeNet as a symbol."""
    x = mx.sym.Variable("data")
    for name in ("conv1", "conv2"):
        x = mx.sym.Convolution(x, name=name, num_filter=lenet.SHAPES[name][0], kernel=(5, 5))
        x = mx.sym.Pooling(x, pool_type="max", kernel=(2, 2), stride=(2, 2))
    x = mx.sym.FullyConnected(x, name="ip1", num_hidden=lenet.SHAPES["ip1"][0])
    x = mx.sym.Activation(x, act_type="relu")
    x = mx.sym.FullyConnected(x, name="ip2", num_hidden=lenet.SHAPES["ip2"][0])
    return mx.sym.SoftmaxOutput(x, name="softmax", normalization="batch")


def train(seed: int, images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Train, and return what the golden file holds of it."""
    trained, tested = lenet.split(labels)
    module = mx.mod.Module(net())
    module.bind([("data", (lenet.BATCH, 1, 28, 28))], [("softmax_label", (lenet.BATCH,))])
    weights = {
        f"{name}_{role}": mx.nd.array(array)
        for name, pair in lenet.start(seed).items()
        for role, array in zip(("weight", "bias"), pair, strict=True)
    }
    module.init_params(arg_params=weights)
    names = sorted(weights)
    optimizer = mx.optimizer.SGD(
        learning_rate=lenet.RATE,
        momentum=lenet.MOMENTUM,
        wd=lenet.DECAY,
        lr_scheduler=Inv(),
        param_idx2name=dict(enumerate(module._exec_group.param_names)),
    )
    optimizer.set_lr_mult({name: lenet.BIAS_RATE for name in names if name.endswith("bias")})
    optimizer.set_wd_mult(dict.fromkeys(names, 1.0))
    module.init_optimizer(optimizer=optimizer)
    losses = []
    for rows in lenet.batches(seed, len(trained), lenet.STEPS):
        chosen = trained[rows]
        module.forward_backward(batch(images[chosen], labels[chosen]))
        module.update()
        probabilities = module.get_outputs()[0].asnumpy().astype(np.float64)
        losses.append(-np.log(probabilities[np.arange(len(chosen)), labels[chosen]]).mean())
    module.forward(batch(images[tested], labels[tested]), is_train=False)
    hits = module.get_outputs()[0].asnumpy().argmax(1) == labels[tested]
    return {"losses": [float(f"{loss:.7e}") for loss in losses[:SHOWN]], "accuracy": float(hits.mean())}


def batch(images: np.ndarray, labels: np.ndarray) -> Any:
    """Return a batch as modules take it."""
    return mx.io.DataBatch([mx.nd.array(images)], [mx.nd.array(labels)])


def main() -> None:
    """Write the golden file."""
    images, labels = lenet.digits(Path(sys.argv[1]))
    golden.write_json(GOLDEN, [train(seed, images, labels) for seed in lenet.SEEDS])


if __name__ == "__main__":
    main()
