"""Training by MXNet's Module: ``python mxnet_worker.py LAYERS.json BATCH SIZE THREADS``."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import mxnet as mx
import numpy as np
import protocol


def build(layers: list[dict[str, Any]]) -> Any:
    """Return the net as a symbol, its losses together."""
    made = {name: mx.sym.Variable(name) for name in ("data", "label")}
    losses = []
    for layer in layers:
        inputs = [made[name] for name in layer["inputs"] if name in made]
        output = one(layer["type"], inputs, layer["settings"], layer["name"])
        if layer["type"] == "SoftmaxWithLoss":
            losses.append(output)
        made.update(dict.fromkeys(layer["outputs"], output))
    return mx.sym.Group(losses)


def one(kind: str, inputs: list[Any], settings: dict[str, Any], name: str) -> Any:
    """Return what a layer makes."""
    x = inputs[0]
    pair = {
        key: (settings.get(key, default),) * 2
        for key, default in (("kernel_size", 1), ("stride", 1), ("pad", 0))
    }
    if kind == "Convolution":
        return mx.sym.Convolution(
            x,
            name=name,
            num_filter=settings["num_output"],
            kernel=pair["kernel_size"],
            stride=pair["stride"],
            pad=pair["pad"],
            num_group=settings.get("group", 1),
            no_bias=not settings.get("bias_term", True),
        )
    if kind == "Pooling":
        return mx.sym.Pooling(
            x,
            kernel=pair["kernel_size"],
            stride=pair["stride"],
            pad=pair["pad"],
            pool_type="max" if settings.get("pool", "MAX") == "MAX" else "avg",
            pooling_convention="full",
        )
    if kind == "SoftmaxWithLoss":
        weight = settings["loss_weight"]
        return mx.sym.SoftmaxOutput(x, inputs[1], name=name, normalization="batch", grad_scale=weight)
    rows = {
        "ReLU": lambda: mx.sym.Activation(x, act_type="relu"),
        "LRN": lambda: mx.sym.LRN(
            x, nsize=settings["local_size"], alpha=settings["alpha"], beta=settings["beta"]
        ),
        "InnerProduct": lambda: mx.sym.FullyConnected(x, name=name, num_hidden=settings["num_output"]),
        "Dropout": lambda: mx.sym.Dropout(x, p=settings["dropout_ratio"]),
        "Concat": lambda: mx.sym.Concat(*inputs),
        "BatchNorm": lambda: mx.sym.BatchNorm(x, name=name, fix_gamma=False, eps=1e-5),
        "Scale": lambda: x,  # BatchNorm has it
        "Eltwise": lambda: inputs[0] + inputs[1],
    }
    return rows[kind]()


def main() -> None:
    """Build the net and serve."""
    path, batch, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with pathlib.Path(path).open() as file:
        symbol = build(json.load(file))
    module = mx.mod.Module(symbol, label_names=["label"])
    module.bind([("data", (batch, 3, size, size))], [("label", (batch,))])
    module.init_params(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    settings = {"learning_rate": protocol.RATE, "momentum": protocol.MOMENTUM, "wd": protocol.DECAY}
    module.init_optimizer(kvstore=None, optimizer="sgd", optimizer_params=settings)
    draw = np.random.RandomState(0)
    labels = draw.randint(protocol.CLASSES, size=batch)
    fixed = mx.io.DataBatch([mx.nd.array(draw.randn(batch, 3, size, size))], [mx.nd.array(labels)])

    def step() -> float:
        module.forward_backward(fixed)
        module.update()
        mx.nd.waitall()
        probabilities = module.get_outputs()[-1].asnumpy()
        return float(-np.log(probabilities[np.arange(batch), labels] + 1e-30).mean())

    arguments, _ = module.get_params()
    protocol.serve(sum(array.size for array in arguments.values()), step, name=f"MXNet {mx.__version__}")


if __name__ == "__main__":
    main()
