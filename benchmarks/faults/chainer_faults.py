"""Chainer models, the same with other names, and faults planted in the source or the arrays."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults.arrays import Stored, array_faults, spread
from benchmarks.faults.model import Fault, Net, Subject, Subjects, Wanted
from benchmarks.source_module import source_module

COUNT = 2
"""Faults of one kind in one net."""

MODELS = Path(__file__).with_name("chainer_models")
SHAPE = (3, 32, 32)

ROLES = {
    "b": "bias", "beta": "bias", "gamma": "gamma", "avg_mean": "mean", "avg_var": "variance",
}  # fmt: skip

FLATTENED = {"classic": {"fc1": (16, 2, 2)}}
"""Channels, height and width that a dense layer reads flattened."""


def made(path: Path) -> Any:
    """Return the model of a file; needs Chainer."""
    return source_module(path).Net()


@dataclass(frozen=True)
class ChainerNet:
    """A model's source and its arrays by the keys of Chainer's ``.npz``."""

    name: str
    source: str
    arrays: dict[str, np.ndarray]

    def net(self) -> Net:
        """Return the net's files."""
        written = io.BytesIO()
        np.savez(written, **self.arrays)
        return Net("chainer", {"net.py": self.source.encode(), "net.npz": written.getvalue()}, {"x": SHAPE})

    def renamed(self) -> ChainerNet:
        """Return the model with other names, called instead of forwarded."""
        links = "|".join({key.partition("/")[0] for key in self.arrays})
        source = re.sub(rf"self\.({links})\b", r"self.layer_\1", self.source)
        arrays = {f"layer_{key}": values for key, values in self.arrays.items()}
        return replace(self, source=source.replace("def forward", "def __call__"), arrays=arrays)

    def stored(self) -> Iterator[Stored]:
        """Yield what is stored, by role, in the order in which the source makes the links."""
        made = re.findall(r"self\.(\w+) = ", self.source)
        for key, values in sorted(self.arrays.items(), key=lambda row: made.index(row[0].partition("/")[0])):
            layer, _, last = key.partition("/")
            role = ROLES.get(last) or {4: "filter", 2: "matrix", 1: "slope"}.get(values.ndim)
            if role is not None:
                yield Stored(key, layer, role, FLATTENED.get(self.name, {}).get(layer))


def read(zoo: Path, name: str) -> ChainerNet:
    """Return a model with the arrays that ``benchmarks.faults.chainer_zoo`` wrote."""
    with np.load(zoo / f"{name}.npz") as stored:
        arrays = {key: stored[key] for key in stored}
    return ChainerNet(name, (MODELS / f"{name}.py").read_text(), arrays)


def subjects(zoo: Path, wanted: Wanted) -> Subjects:
    """Yield every model that is wanted with its renamed form and its faults."""
    for name in sorted(path.stem for path in MODELS.glob("*.py")):
        if wanted(f"chainer-{name}"):
            net = read(zoo, name)
            names = {key.partition("/")[0]: f"layer_{key.partition('/')[0]}" for key in net.arrays}
            partners = {"renamed": net.renamed().net()}
            found = list(faults(net, count=COUNT))
            yield Subject(f"chainer-{name}", net.net(), partners, found, {"renamed": names})


def faults(net: ChainerNet, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a model."""
    lines = net.source.split("\n")
    for kind, pattern, change, mismatches, in_table in EDITS:
        places = [i for i, line in enumerate(lines) if re.search(pattern, line)]
        for place in spread(places, count):
            changed = [*lines[:place], re.sub(pattern, change, lines[place]), *lines[place + 1 :]]
            layer = _layer(lines[place])
            line = 0 if "self." in lines[place] else place + 1
            gone = f"{layer}/b" if kind == "bias left out" else None
            arrays = {key: values for key, values in net.arrays.items() if key != gone}
            made = replace(net, source="\n".join(changed), arrays=arrays).net()
            yield Fault(kind, layer, frozenset(mismatches), made, in_table, line=line)
    for found in array_faults(net.stored(), net.arrays, count=count):
        made = replace(net, arrays={**net.arrays, found.stored.key: found.values}).net()
        yield Fault(found.kind, found.stored.layer, found.mismatches, made, found.in_table)


def _layer(line: str) -> str:
    """Return the name of the layer that a line makes or calls."""
    found = re.search(r"self\.(\w+)", line) or re.search(r"F\.(\w+)", line)
    assert found is not None
    return found[1]


def _more(by: int = 1) -> Callable[[re.Match[str]], str]:
    """Return what puts a larger number in the place of the second group."""
    return lambda found: f"{found[1]}{int(found[2]) + by}"


Change = Callable[[re.Match[str]], str] | str
Edit = tuple[str, str, Change, set[str], bool]

AVERAGE = r"F.average_pooling_2d\1)"
CONV = r"L\.(?:Dilated)?Convolution2D\(.*"

EDITS: tuple[Edit, ...] = (
    ("conv: padding", rf"({CONV}ksize=[2-9].*pad=)(\d)", _more(), {"padding"}, True),
    ("conv: stride", rf"({CONV}stride=)(\d)", _more(), {"stride"}, True),
    ("conv: dilation", r"(DilatedConvolution2D.*pad=)2, dilate=2", r"\g<1>1, dilate=1",
     {"dilation", "padding"}, True),
    ("conv: padding", r"(Depthwise.*pad=)(\d)", _more(), {"padding"}, True),
    ("deconv: padding", r"(Deconvolution.*pad=)(\d)", _more(), {"padding"}, True),
    ("pool: operator", r"F\.max_pooling_2d(.*?)(, cover_all=False)?\)", AVERAGE, {"operator"}, True),
    ("pool: operator", r"F\.average_pooling_2d", "F.max_pooling_2d", {"operator"}, True),
    ("pool: rounding", r"(max_pooling_2d.*stride=\d)\)", r"\1, cover_all=False)", {"pool-rounding"}, True),
    ("pool: rounding", r"(max_pooling_2d.*)cover_all=False", r"\1cover_all=True", {"pool-rounding"}, True),
    ("pool: kernel", r"(_pooling_2d.*ksize=)(\d)", _more(), {"kernel-size"}, True),
    ("pool: stride", r"(max_pooling_2d.*stride=)(\d)", _more(), {"stride"}, True),
    ("lrn: alpha divided", r"alpha=0.05", "alpha=0.05 / 5", {"lrn-alpha"}, True),
    ("lrn: beta", r"beta=0.75", "beta=0.5", {"lrn-beta"}, True),
    ("lrn: k", r"k=2.0", "k=1.0", {"lrn-k"}, True),
    ("lrn: size", r"n=5", "n=3", {"lrn-size", "lrn-alpha"}, True),
    ("bn: eps", r"eps=0.001", "eps=0.1", {"epsilon"}, True),
    ("relu: sigmoid", r"F\.relu", "F.sigmoid", {"operator"}, True),
    ("relu: leaky", r"F\.relu", "F.leaky_relu", {"operator", "leaky-slope"}, True),
    ("tanh: sigmoid", r"F\.tanh", "F.sigmoid", {"operator"}, True),
    ("leaky slope", r"slope=0.\d", "slope=0.01", {"leaky-slope"}, True),
    ("elu: alpha", r"(F\.elu.*alpha=)0.5", r"\g<1>1.0", {"elu-alpha"}, True),
    ("relu: bound", r"F\.clipped_relu\(h, z=6.0\)", "F.relu(h)", {"operator"}, True),
    ("softmax axis", r"(F\.softmax.*axis=)1", r"\g<1>0", {"softmax-axis"}, True),
    ("bias left out", rf"({CONV}pad=\d)\)", r"\1, nobias=True)", {"missing-bias", "weights"}, True),
    ("branches swapped", r"F\.concat\(\((\w), (\w)", r"F.concat((\2, \1", {"input-order"}, False),
    ("sum: product", r"F\.add\((\w), (\w)\)", r"\1 * \2", {"operator"}, False),
    ("layer left out", r"= F\.(?:relu|elu|tanh|leaky_relu)\((\w).*\)", r"= \1", {"missing-layer"}, False),
    ("layer left out", r"= self\.(?:bn\d?|prelu)\((\w)\)", r"= \1", {"missing-layer"}, False),
)  # fmt: skip
"""Kind, what is looked for in a line, what it becomes, what explains it, whether the table has it."""
