"""The networks of ``image-classification/symbols`` and of ``ssd``: a step on both sides, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import importlib, inspect, sys
import numpy as np
sys.path.insert(0, {folder!r})
import {package} as mx
module = importlib.import_module({name!r})
settings = dict(num_classes=10, image_shape='3,{size},{size}', num_layers={layers}, num_group=32,
                dtype='float32', grad_scale=1.0)
build = module.get_symbol
names = inspect.signature(build).parameters
if not any(one.kind is one.VAR_KEYWORD for one in names.values()):
    settings = {{key: value for key, value in settings.items() if key in names}}
net = build(**settings)
outside = {{'data', 'softmax_label', 'label'}}
shape = {{'data': (2, 1, 28, 28) if {name!r} in ('lenet', 'mlp') else (2, 3, {size}, {size})}}
if 'label' in net.list_arguments():
    shape['label'] = (2, 3, 5)
executor = net.simple_bind(mx.cpu(), grad_req='write', **shape)

def fill(name, size):
    generator = np.random.default_rng(sum(map(ord, name)))
    if name == 'data':
        return generator.normal(0, 1, size)
    if name == 'label':
        boxes = np.full(size, -1.0)
        boxes[:, 0] = (1, 0.1, 0.1, 0.6, 0.7)
        return boxes
    if name.endswith('_label'):
        return generator.integers(0, 10, size)
    if name.endswith(('gamma', 'var')):
        return generator.uniform(0.8, 1.2, size)
    if len(size) == 1:
        return generator.normal(0, 0.05, size)
    return generator.normal(0, (2.0 / np.prod(size[1:])) ** 0.5, size)

for arrays in (executor.arg_dict, executor.aux_dict):
    for name, array in arrays.items():
        array[:] = fill(name, array.shape).astype('float32')
inference = [one.asnumpy() for one in executor.forward(is_train=False)]
mx.random.seed(1)
executor.forward(is_train=True)
executor.backward()
gradients = {{'gradient ' + k: v.asnumpy() for k, v in executor.grad_dict.items() if k not in outside}}
outputs = {{'output %d' % k: v for k, v in enumerate(inference)}}
shapes = {{'shape ' + k: np.array(v.shape) for k, v in executor.arg_dict.items()}}
drops = 'Dropout' in net.tojson()
np.savez({out!r}, **outputs, **shapes, **({{}} if drops else gradients))
"""
"""Fills the arguments from their names, runs forward and backward, and keeps the numbers."""

SIZES = {
    "inception-v3": 299,
    "inception-v4": 299,
    "inception-resnet-v2": 299,
    "googlenet": 224,
    "alexnet": 224,
    "alexnet_fp16": 224,
    "inception-bn": 224,
    "mobilenet": 224,
    "vgg": 64,
    "vgg16_reduced": 64,
}
LAYERS = {"vgg": 11, "resnext": 50}


def names(folder: Path) -> list[tuple[Path, str]]:
    """Return the symbol files of a release: the folder of each, and its name."""
    files = [
        path
        for place in ("image-classification", "ssd")
        for path in sorted((folder / place).rglob("symbol*/*.py"))
        if "def get_symbol(" in path.read_text(encoding="utf-8", errors="replace")
    ]
    return [(path.parent, path.stem) for path in files]


def program(*, package: str, folder: Path, name: str, out: Path) -> str:
    """Return the program that runs a network and writes its numbers to ``out``."""
    size, layers = SIZES.get(name, 96), LAYERS.get(name, 18)
    return PROGRAM.format(
        package=package, folder=str(folder), name=name, size=size, layers=layers, out=str(out)
    )


def compared(ours: Path, theirs: Path) -> str:
    """Return ``agrees`` with the differences of outputs and of gradients, or what differs."""
    import numpy as np

    one, other = np.load(ours), np.load(theirs)
    if set(one.files) != set(other.files):
        return f"other arrays: {sorted(set(one.files) ^ set(other.files))[:4]}"
    worst, apart, whole = 0.0, 0.0, 0.0
    for name in one.files:
        mine, reference = (arrays[name].astype(np.float64) for arrays in (one, other))
        if mine.shape != reference.shape:
            return f"{name}: shape {mine.shape}, MXNet's {reference.shape}"
        if name.startswith("shape ") and (mine != reference).any():
            return f"{name}: {tuple(mine)}, MXNet's {tuple(reference)}"
        if name.startswith("output "):
            worst = max(worst, float(np.abs(mine - reference).max() / max(np.abs(reference).max(), 1e-12)))
        if name.startswith("gradient "):
            apart, whole = apart + float(((mine - reference) ** 2).sum()), whole + float((reference**2).sum())
    gradients = (apart / whole) ** 0.5 if whole else 0.0
    verdict = "agrees" if worst < 1e-4 else "differs"
    return f"{verdict}: outputs {worst:.1e}, gradients {gradients:.1e}"
