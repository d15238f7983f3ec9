"""The networks of ``image-classification/symbols`` and of ``ssd``: a step on both sides, compared.

Releases share most of their files: each definition counts once, from the newest release that has it.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PLACES = ("image-classification", "ssd")

FACTORY, BUILDER = "symbol_factory", "symbol_builder"
"""SSD's nets over another net's layers: the one names them, the other builds them."""

FACTORY_NETS = ("vgg16_reduced", "inceptionv3", "resnet50")

PROGRAM = """
import importlib, inspect, json, sys
import numpy as np
sys.path.insert(0, {folder!r})
import {package} as mx
module = importlib.import_module({module!r})
build = getattr(module, 'get_symbol_train', module.get_symbol)
settings = dict(num_classes=10, image_shape='3,{size},{size}', num_layers={layers}, num_group=32,
                dtype='float32', grad_scale=1.0)
names = inspect.signature(build).parameters
if not any(one.kind is one.VAR_KEYWORD for one in names.values()):
    settings = {{key: value for key, value in settings.items() if key in names}}
if {network!r}:
    settings = dict(network={network!r}, data_shape={size}, num_classes=10)
net = build(**settings)

def change(document):
    for node in document['nodes']:
        attributes = node.get('attrs') or node.get('attr') or {{}}
        if node['op'] == 'Dropout':
            attributes['p'] = '0'  # so that gradients can be compared
        if {widen!r} and node['op'] in ('Cast', 'cast'):
            attributes['dtype'] = {kind!r}
    return json.dumps(document)

net = mx.sym.load_json(change(json.loads(net.tojson())))
outside = {{'data', 'softmax_label', 'label'}}
shape = {{'data': (2, 1, 28, 28) if {name!r} in ('lenet', 'mlp') else ({batch}, 3, {size}, {size})}}
if 'label' in net.list_arguments():
    shape['label'] = ({batch}, 3, 5)
if 'softmax_label' in net.list_arguments():
    shape['softmax_label'] = shape['data'][:1]
# a softmax of far apart numbers hides how they differ: what goes into it counts as well
inner = net.get_internals()
ends = [name for name in inner.list_outputs() if name.endswith('_output') and name not in net.list_outputs()]
# in 32 bits, gradients of deep nets differ by percents from those of 64 bits, on both sides
kind = {kind!r}
types = {{name: kind for name in net.list_arguments()}}
executor = net.simple_bind(mx.cpu(), grad_req='write', type_dict=types, **shape)

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

def fill_all(executor):
    for arrays in (executor.arg_dict, executor.aux_dict):
        for name, array in arrays.items():
            array[:] = mx.nd.array(fill(name, array.shape).astype('float32'), dtype=array.dtype)

fill_all(executor)
outputs = {{'output %d' % k: v.asnumpy() for k, v in enumerate(executor.forward(is_train=False))}}
last = next(inner[name] for name in reversed(ends) if 'data' in inner[name].list_arguments())
known = {{k: v for k, v in shape.items() if k in last.list_arguments()}}
types = {{name: kind for name in last.list_arguments()}}
before = last.simple_bind(mx.cpu(), grad_req='null', type_dict=types, **known)
fill_all(before)
outputs['output before the end'] = before.forward(is_train=False)[0].asnumpy()
del before
mx.random.seed(1)
executor.forward(is_train=True)
executor.backward()
gradients = {{'gradient ' + k: v.asnumpy() for k, v in executor.grad_dict.items() if k not in outside}}
shapes = {{'shape ' + k: np.array(v.shape) for k, v in executor.arg_dict.items()}}
np.savez({out!r}, **outputs, **shapes, **gradients)
"""
"""Fills the arguments from their names, runs forward and backward in 64 bits, and keeps the numbers."""

SIZES = {
    "inception-v3": 299,
    "inception-v4": 299,
    "inception-resnet-v2": 299,
    "googlenet": 256,
    "inception-bn": 224,
    "mobilenet": 224,
    "alexnet": 128,
    "alexnet_fp16": 128,
    "vgg": 64,
    "vgg16_reduced": 64,
    "inceptionv3": 299,
    "legacy_vgg16_ssd_300": 300,
    "symbol_vgg16_ssd_300": 300,
    "legacy_vgg16_ssd_512": 512,
    "symbol_vgg16_ssd_512": 512,
    FACTORY: 300,
}
"""Sizes of images: as small as the net allows."""

LAYERS = {"vgg": 11, "resnext": 50}


@dataclass(frozen=True, slots=True)
class Network:
    """A network of a symbol file.

    Attributes:
        release: The newest release that has this definition.
        script: Path below the folder of examples.
        network: Name of the net that SSD's factory builds; empty for the file's own.
        definition: Fingerprint of the code, without its comments.
    """

    release: str
    script: str
    network: str
    definition: str

    @property
    def name(self) -> str:
        """The module's name."""
        return self.script.rpartition("/")[2].removesuffix(".py")

    @property
    def is_half(self) -> bool:
        """Whether it computes in 16 bits, which MXNet does on GPUs only."""
        return self.name.endswith("fp16")

    @property
    def is_single(self) -> bool:
        """Whether MXNet computes it in 32 bits only: LRN and the operators of boxes have no others."""
        return self.name.startswith(("alexnet", "legacy_", "symbol_"))


def networks(folders: dict[str, Path]) -> list[Network]:
    """Return each different network of some releases, from folders by the release's number."""
    newest: dict[tuple[str, str, str], Network] = {}
    for release in sorted(folders, key=lambda name: [int(part) for part in name.split(".")]):
        folder = folders[release]
        for path, network, definition in _definitions(folder / "example"):
            script = path.relative_to(folder / "example").as_posix()
            newest[script, network, definition] = Network(release, script, network, definition)
    return sorted(newest.values(), key=lambda one: (one.script, one.network, one.release))


def _definitions(example: Path) -> Iterator[tuple[Path, str, str]]:
    files = [path for place in PLACES for path in sorted((example / place).rglob("symbol*/*.py"))]
    builds = [
        path for path in files if "def get_symbol(" in path.read_text(encoding="utf-8", errors="replace")
    ]
    for path in builds:
        if path.stem == FACTORY:
            parts = [path.with_stem(name) for name in (FACTORY, BUILDER, "common")]
            for network in FACTORY_NETS:
                own = path.with_stem(network.removesuffix("50"))
                yield path, network, _fingerprint([*parts, own])
        elif path.stem != BUILDER:
            yield path, "", _fingerprint([path])


def _fingerprint(files: Iterable[Path]) -> str:
    """Return a fingerprint of code, whatever its comments and docstrings."""
    digest = hashlib.sha256()
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        try:
            tree = ast.parse(text)
        except SyntaxError:  # Python 2
            digest.update(text.encode())
            continue
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                node.body = body[1:] if isinstance(body[0].value, ast.Constant) else body  # type: ignore[attr-defined]  # it has one
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()[:12]


def program(one: Network, *, package: str, folder: Path, out: Path, widen: bool) -> str:
    """Return the program that runs a network and writes its numbers to ``out``.

    Args:
        one: The network.
        package: The package that it runs on.
        folder: Where its file is.
        out: Where the numbers go.
        widen: Whether what it casts to 16 bits stays as it is.
    """
    return PROGRAM.format(
        package=package,
        folder=str(folder),
        module=one.name,
        name=one.name,
        network=one.network,
        size=SIZES.get(one.name, 96),
        batch=1 if one.script.startswith("ssd/") else 2,
        layers=LAYERS.get(one.name, 18),
        out=str(out),
        widen=widen,
        kind="float32" if one.is_single or (one.is_half and not widen) else "float64",
    )


def compared(ours: Path, theirs: Path) -> str:
    """Return ``agrees`` with the differences of outputs and of gradients, or what differs.

    Outputs are compared by their largest difference, relative to the largest number; all gradients together
    by the root of the sum of the squares.
    """
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
    bits = max(other[name].dtype.itemsize * 8 for name in other.files if name.startswith("output "))
    most_outputs, most_gradients = MOST[bits]
    verdict = "agrees" if worst < most_outputs and gradients < most_gradients else "differs"
    return f"{verdict} in {bits} bits: outputs {worst:.1e}, gradients {gradients:.1e}"


MOST = {64: (1e-6, 1e-6), 32: (1e-4, 1e-2)}
"""So much may outputs and gradients differ, by the bits that are computed with."""
