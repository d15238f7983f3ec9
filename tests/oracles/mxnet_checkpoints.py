"""Checkpoints: a net that each optimizer trained, saved with its states, and where training gets from there.

    python -m tests.oracles.mxnet_checkpoints train FOLDER PACKAGE
    python -m tests.oracles.mxnet_checkpoints resume FOLDER OUT.npz PACKAGE COUNTED

``PACKAGE`` is ``mxnet``, or what stands in for it. ``COUNTED`` is how many updates a package is told of that
finds no counts in the files: MXNet does not store them. Without arguments, MXNet writes
``tests/golden/mxnet_checkpoints``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden" / "mxnet_checkpoints"
BATCH, STEPS = 8, 6
MOMENTUM = {"momentum": 0.9}

OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("sgd", {}),
    "sgd_momentum": ("sgd", MOMENTUM),
    "nag": ("nag", MOMENTUM),
    "signum": ("signum", MOMENTUM),
    "dcasgd": ("dcasgd", {}),
    "lbsgd": ("lbsgd", MOMENTUM),
    "lars": ("lars", MOMENTUM),
    "adam": ("adam", {}),
    "adagrad": ("adagrad", {}),
    "rmsprop": ("rmsprop", {}),
    "rmsprop_centered": ("rmsprop", {"centered": True}),
    "adadelta": ("adadelta", {}),
    "ftrl": ("ftrl", {}),
    "adamax": ("adamax", {}),
    "nadam": ("nadam", {}),
    "ftml": ("ftml", {}),
    "lamb": ("lamb", {}),
    "groupadagrad": ("groupadagrad", {}),
}
"""The optimizers that are tried, with settings. (MXNet's DCASGD fails with a momentum.)"""


def net(mx: Any) -> Any:
    """Return a net with auxiliary states; no array's gradient is nothing but rounding."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=6, no_bias=True, name="fc1")
    x = mx.sym.BatchNorm(x, fix_gamma=False, name="bn")
    x = mx.sym.FullyConnected(mx.sym.Activation(x, act_type="tanh"), num_hidden=3, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def bound(mx: Any, module: Any, name: str, counted: int) -> Any:
    """Return a module with sizes, values and an optimizer."""
    module.bind([("data", (BATCH, 5))], [("softmax_label", (BATCH,))])
    if not module.params_initialized:
        args, aux = (dict(zip(*pair, strict=True)) for pair in _first_values(mx))
        module.init_params(arg_params=args, aux_params=aux)
    kind, settings = OPTIMIZERS[name]
    given = {"learning_rate": 0.05, "begin_num_update": counted, **settings}
    module.init_optimizer(None, kind, given)
    return module


def _first_values(mx: Any) -> Any:
    symbol = net(mx)
    shapes, _, states = symbol.infer_shape(data=(BATCH, 5))
    names = [name for name in symbol.list_arguments() if name not in {"data", "softmax_label"}]
    sizes = dict(zip(symbol.list_arguments(), shapes, strict=True))
    generator = np.random.RandomState(5)
    arrays = [mx.nd.array(generator.uniform(0.1, 1, sizes[name]) - 0.3) for name in names]
    return (names, arrays), (symbol.list_auxiliary_states(), [mx.nd.ones(size) for size in states])


def fixed(name: str) -> list[str]:
    """Return arrays that keep their values: one optimizer is for matrices only."""
    return ["fc2_bias", "bn_gamma", "bn_beta"] if name == "groupadagrad" else []


def updated(mx: Any, module: Any, begin: int) -> Any:
    """Return a module after some updates."""
    for step in range(begin, begin + STEPS):
        generator = np.random.RandomState(100 + step)
        data = mx.nd.array(generator.normal(size=(BATCH, 5)))
        label = mx.nd.array(generator.randint(0, 3, BATCH))
        module.forward(mx.io.DataBatch([data], [label]), is_train=True)
        module.backward()
        module.update()
        mx.nd.waitall()  # MXNet's engine does not know that backward writes moving means
    return module


TRAINERS = ("adam", "nadam")
"""Optimizers whose counts matter; a trainer of Gluon's pickles them with the optimizer."""

NAMES = (*OPTIMIZERS, *(f"gluon_{kind}" for kind in TRAINERS))


def gluon(mx: Any, kind: str, counted: int) -> tuple[Any, Any]:
    """Return a block of Gluon's and its trainer."""
    block = mx.gluon.nn.HybridSequential(prefix="net_")
    with block.name_scope():
        block.add(mx.gluon.nn.Dense(4, activation="tanh", in_units=5), mx.gluon.nn.Dense(3, in_units=4))
    block.initialize()
    generator = np.random.RandomState(6)
    for parameter in block.collect_params().values():
        parameter.set_data(mx.nd.array(generator.uniform(-0.5, 0.5, parameter.shape)))
    settings = {"learning_rate": 0.05, "begin_num_update": counted}
    return block, mx.gluon.Trainer(block.collect_params(), kind, settings)


def stepped(mx: Any, block: Any, trainer: Any, begin: int) -> None:
    """Make some updates."""
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    for step in range(begin, begin + STEPS):
        generator = np.random.RandomState(100 + step)
        data = mx.nd.array(generator.normal(size=(BATCH, 5)))
        label = mx.nd.array(generator.randint(0, 3, BATCH))
        with mx.autograd.record():
            value = loss(block(data), label)
        value.backward()
        trainer.step(BATCH)


def train(mx: Any, folder: Path) -> None:
    """Train with each optimizer and save all."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in TRAINERS:
        block, trainer = gluon(mx, kind, 0)
        stepped(mx, block, trainer, 0)
        block.save_parameters(str(folder / f"gluon_{kind}.params"))
        trainer.save_states(str(folder / f"gluon_{kind}.states"))
    for name in OPTIMIZERS:
        module = bound(mx, mx.mod.Module(net(mx), fixed_param_names=fixed(name)), name, 0)
        updated(mx, module, 0).save_checkpoint(str(folder / name), 1, True)


def resume(mx: Any, folder: Path, counted: int) -> dict[str, np.ndarray]:
    """Return the arrays of all checkpoints as loaded, and after further updates."""
    found = {}
    for name in NAMES:
        found |= resume_one(mx, folder, name, counted)
    return found


def resume_one(mx: Any, folder: Path, name: str, counted: int) -> dict[str, np.ndarray]:
    """Return the arrays of one checkpoint as loaded, and after further updates."""
    if name.startswith("gluon_"):
        return _resume_gluon(mx, folder, name, counted)
    settings = {"fixed_param_names": fixed(name)}
    module = bound(mx, mx.mod.Module.load(str(folder / name), 1, True, **settings), name, counted)
    found = {}
    for when in ("loaded", "updated"):
        if when == "updated":
            updated(mx, module, STEPS)
        args, aux = module.get_params()
        found |= {f"{name}:{when}:{key}": array.asnumpy() for key, array in {**args, **aux}.items()}
    return found


def _resume_gluon(mx: Any, folder: Path, name: str, counted: int) -> dict[str, np.ndarray]:
    block, trainer = gluon(mx, name.removeprefix("gluon_"), counted)
    block.load_parameters(str(folder / f"{name}.params"))
    trainer.load_states(str(folder / f"{name}.states"))
    found = {}
    for when in ("loaded", "updated"):
        if when == "updated":
            stepped(mx, block, trainer, STEPS)
        values = [one.data().asnumpy() for one in block.collect_params().values()]
        found |= {f"{name}:{when}:{number}": array for number, array in enumerate(values)}
    return found


def main(arguments: list[str]) -> None:
    """Do what the command line says."""
    if not arguments:
        mx = importlib.import_module("mxnet")
        train(mx, GOLDEN)
        np.savez_compressed(GOLDEN / "resumed.npz", **resume(mx, GOLDEN, 0))
    elif arguments[0] == "train":
        train(importlib.import_module(arguments[2]), Path(arguments[1]))
    else:
        folder, out, package, counted = arguments[1:]
        np.savez(out, **resume(importlib.import_module(package), Path(folder), int(counted)))


if __name__ == "__main__":
    main(sys.argv[1:])
