"""Symbols and arrays of MXNet nets, written by MXNet itself.

::

    python -m benchmarks.faults.zoo CORPUS FOLDER

Nets of the model zoo's own code, narrow ones so that many faults can be tried, with arrays drawn by the
oracles' recipe; and the trained face nets of the corpus. Run by an interpreter that has MXNet.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.gluon.model_zoo import vision

from tests.oracles import recipe

ZOO = {
    "squeezenet": (lambda: vision.squeezenet1_1(classes=10), (3, 224, 224)),
    "mobilenet": (lambda: vision.MobileNet(0.25, classes=10), (3, 64, 64)),
    "resnet_v1": (lambda: _resnet(vision.ResNetV1, vision.BasicBlockV1), (3, 64, 64)),
    "resnet_v2": (lambda: _resnet(vision.ResNetV2, vision.BasicBlockV2), (3, 64, 64)),
    "densenet": (lambda: vision.DenseNet(8, 4, (2, 2, 2), classes=10), (3, 112, 112)),
    "mobilenet_v2": (lambda: vision.MobileNetV2(0.25, classes=10), (3, 64, 64)),
    "resnet_v2_bottleneck": (lambda: _resnet(vision.ResNetV2, vision.BottleneckV2), (3, 64, 64)),
    "vgg11_bn": (lambda: _vgg(), (3, 64, 64)),
}
FACES = {"det1": (3, 36, 36), "det2": (3, 24, 24)}

ROLES = {
    "weight": "filter", "gamma": "scale", "running_var": "variance", "running_mean": "mean",
    "moving_var": "variance", "moving_mean": "mean", "beta": "bias", "bias": "bias",
}  # fmt: skip


def main(corpus: Path, folder: Path) -> None:
    """Write ``NAME.json``, ``NAME.npz`` and the input's size for every net."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {}
    for name, (make, shape) in ZOO.items():
        block = make()
        symbol = _narrowed(block(mx.sym.var("data")))
        _write(folder / name, symbol, _drawn(symbol, shape))
        sizes[name] = shape
    for name, shape in FACES.items():
        symbol = mx.sym.load(str(corpus / "mtcnn" / f"{name}-symbol.json"))
        stored = mx.nd.load(str(corpus / "mtcnn" / f"{name}-0001.params"))
        _write(folder / name, symbol, {key: value.asnumpy() for key, value in stored.items()})
        sizes[name] = shape
    (folder / "sizes.json").write_text(json.dumps(sizes))


def _resnet(kind: type, block: type) -> mx.gluon.HybridBlock:
    return kind(block, [2, 2, 2, 2], [8, 8, 16, 32, 48], classes=10)


def _vgg() -> mx.gluon.HybridBlock:
    return vision.VGG([1, 1, 2, 2, 2], [8, 16, 24, 32, 32], classes=10, batch_norm=True)


def _narrowed(symbol: mx.sym.Symbol) -> mx.sym.Symbol:
    """Give the hidden dense layers of VGG, whose size its code does not let choose, fewer outputs."""
    return mx.sym.load_json(symbol.tojson().replace("4096", "64"))


def _drawn(symbol: mx.sym.Symbol, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    inputs, _, states = symbol.infer_shape(data=(1, *shape))
    found = {}
    for prefix, names, shapes in (
        ("arg", symbol.list_arguments(), inputs),
        ("aux", symbol.list_auxiliary_states(), states),
    ):
        for name, size in zip(names, shapes, strict=True):
            if name == "data":
                continue
            role = next(role for end, role in ROLES.items() if name.endswith(f"_{end}"))
            role = "matrix" if role == "filter" and len(size) == 2 else role
            found[f"{prefix}:{name}"] = recipe.weight(name, size, role)
    return found


def _write(path: Path, symbol: mx.sym.Symbol, arrays: dict[str, np.ndarray]) -> None:
    path.with_suffix(".json").write_text(symbol.tojson())
    np.savez(path.with_suffix(".npz"), **{key.replace(":", "|"): value for key, value in arrays.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
