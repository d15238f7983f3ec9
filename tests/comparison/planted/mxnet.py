"""The net as a symbol of MXNet, with its weights in a ``.params`` file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import netweave
from netweave.formats.mxnet.ndarray import encode_arrays
from tests.comparison.planted.plan import CLASSES, IN, LRN_BETA, LRN_SIZE, MIDDLE, POOL, SIZE, Plan, arrays
from tests.formats.mxnet.symbols import node, symbol, variable

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph

POOLINGS = {"max": "max", "average": "avg"}
ROLES = {"mean": "moving_mean", "variance": "moving_var"}


def load(plan: Plan, folder: Path, *, weights: bool) -> Graph:
    """Write the net and read it."""
    (folder / "net-symbol.json").write_text(text(plan))
    if weights:
        (folder / "net-0000.params").write_bytes(params(plan))
    return netweave.load(folder / "net-symbol.json", input_shapes={"data": (1, IN, SIZE, SIZE)})


def text(plan: Plan) -> str:
    """Return the symbol."""
    nodes: list[dict[str, Any]] = [variable("data")]
    last = 0

    def add(op: str, name: str, stored: str = "", **settings: object) -> None:
        nonlocal last
        inputs = [last]
        for role in stored.split():
            inputs.append(len(nodes))
            nodes.append(variable(f"{name}_{role}"))
        last = len(nodes)
        nodes.append(node(op, name, inputs, **{key: str(value) for key, value in settings.items()}))

    conv = {"kernel": "(3, 3)", "num_filter": MIDDLE}
    add("Convolution", "conv1", "weight", **conv, pad="(1, 1)", no_bias=True)
    add("BatchNorm", "bn1", "gamma beta moving_mean moving_var", eps=plan.eps, fix_gamma=plan.fixed_gamma)
    if plan.slope:
        add("LeakyReLU", "act1", act_type="leaky", slope=plan.slope)
    else:
        add("Activation", "act1", act_type="relu")
    if plan.lrn is not None:
        add("LRN", "scale1", nsize=LRN_SIZE, alpha=plan.lrn, beta=LRN_BETA, knorm=1)
    elif plan.scale != 1:
        add("_mul_scalar", "scale1", scalar=plan.scale)
    add("Convolution", "conv2", "weight bias", **conv, pad=f"({plan.pad}, {plan.pad})")
    add("Activation", "act2", act_type=plan.activation)
    add("Pooling", "pool", kernel=f"({POOL}, {POOL})", pool_type=POOLINGS[plan.pooling])
    add("Pooling", "gap", kernel="(1, 1)", global_pool=True, pool_type="avg")
    add("FullyConnected", "fc", "weight bias", num_hidden=CLASSES)
    if plan.end == "softmax":
        add("softmax", "prob")
    else:
        add("Activation", "prob", act_type="sigmoid")
    return symbol(nodes)


def params(plan: Plan) -> bytes:
    """Return the weights."""
    stored = {}
    for key, array in arrays(plan).items():
        layer, role = key.split(".")
        stored[f"{'aux' if role in ROLES else 'arg'}:{layer}_{ROLES.get(role, role)}"] = array
    return encode_arrays(stored)
