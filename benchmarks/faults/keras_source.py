"""The Keras nets of ``keras_zoo`` as files of Python, and faults planted in a line of them."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.arrays import spread
from benchmarks.faults.keras_faults import NETS, WEIGHTS
from benchmarks.faults.model import Fault, Net, Subject, Subjects, Wanted

COUNT = 1
"""Faults of one kind in one net: every file is run by Keras in a process of its own."""

ZOO = Path(__file__).with_name("keras_zoo.py")

HEAD = "from pathlib import Path\n\nimport keras\n\nL = keras.layers\n\n\n"

TAIL = """

def net():
    data = L.Input({shape}, name="data")
    model = keras.Model(data, _{name}(data), name="{name}")
    model.load_weights(Path(__file__).with_suffix(".weights.h5"))
    return model
"""


def source(name: str) -> str:
    """Return a net's function as a file of its own; ``keras_zoo`` itself needs TensorFlow to be imported."""
    text = ZOO.read_text(encoding="utf-8")
    parts = {getattr(part, "name", ""): part for part in ast.parse(text).body}
    body = (ast.get_source_segment(text, parts[name]) or "").replace(": Any", "").replace(" -> Any", "")
    (shape,) = re.findall(rf'"{name}": \({name}, (\(.*?\))\)', text)
    return HEAD + body.replace(f"def {name}", f"def _{name}") + "\n" + TAIL.format(name=name, shape=shape)


def subjects(zoo: Path, wanted: Wanted) -> Subjects:
    """Yield every net that is wanted with its faults.

    Args:
        zoo: What ``benchmarks.faults.keras_zoo`` wrote: the weights.
        wanted: Which nets.
    """
    for name in filter(lambda name: wanted(f"keras-{name}"), NETS):
        with zipfile.ZipFile(zoo / f"{name}.keras") as archive:
            weights = archive.read(WEIGHTS)
        text = source(name)
        yield Subject(f"keras-{name}", _net(text, weights), {}, list(faults(text, weights)))


def _net(text: str, weights: bytes) -> Net:
    return Net("keras", {"net.py": text.encode(), "net.weights.h5": weights}, {})


def faults(text: str, weights: bytes) -> Iterator[Fault]:
    """Yield the faults of a net's source."""
    lines = text.split("\n")
    for kind, pattern, change, mismatches in EDITS:
        places = [i for i, line in enumerate(lines) if re.search(pattern, line)]
        for place in spread(places, COUNT):
            changed = [*lines[:place], re.sub(pattern, change, lines[place], count=1), *lines[place + 1 :]]
            net = _net("\n".join(changed), weights)
            yield Fault(kind, f"line {place + 1}", frozenset(mismatches), net, line=place + 1)


def _more(found: re.Match[str]) -> str:
    return f"{found[1]}{int(found[2]) + 1}"


Change = Callable[[re.Match[str]], str] | str

CONV = r"L\.(?:Depthwise|Separable)?Conv2D\("

EDITS: tuple[tuple[str, str, Change, set[str]], ...] = (
    ("conv: padding", rf'({CONV}.*padding=)"same"', r'\1"valid"', {"padding"}),
    ("conv: stride", rf"({CONV}.*strides=)(\d)", _more, {"stride", "padding"}),
    ("conv: dilation", r"(dilation_rate=)2", r"\g<1>1", {"dilation", "padding"}),
    ("padding at the other end", r"ZeroPadding2D\(\(\(0, 1\), \(0, 1\)\)", "ZeroPadding2D(((1, 0), (1, 0))",
     {"padding"}),
    ("pool: operator", r"L\.MaxPooling2D", "L.AveragePooling2D", {"operator"}),
    ("pool: operator", r"L\.AveragePooling2D", "L.MaxPooling2D", {"operator"}),
    ("pool: operator", r"GlobalAveragePooling2D", "GlobalMaxPooling2D", {"operator"}),
    ("pool: padding", r'(Pooling2D\(.*)padding="same"', r'\1padding="valid"', {"padding", "pool-rounding"}),
    ("pool: kernel", r"((?:Max|Average)Pooling2D\()(\d)", _more, {"kernel-size", "padding"}),
    ("pool: stride", r"((?:Max|Average)Pooling2D\(\d, )(\d)", _more, {"stride", "padding"}),
    ("bn: eps", r"BatchNormalization\(name", "BatchNormalization(epsilon=0.1, name", {"epsilon"}),
    ("bn: eps", r"epsilon=1e-3", "epsilon=0.1", {"epsilon"}),
    ("relu: sigmoid", r'activation="relu"', 'activation="sigmoid"', {"operator"}),
    ("relu: sigmoid", r'L\.Activation\("relu"', 'L.Activation("sigmoid"', {"operator"}),
    ("tanh: sigmoid", r'activation="tanh"', 'activation="sigmoid"', {"operator"}),
    ("elu: relu", r'activation="elu"', 'activation="relu"', {"operator"}),
    ("relu: bound", r"L\.ReLU\(6\.0, ", "L.ReLU(", {"operator"}),
    ("relu: leaky", r"L\.ReLU\(name", "L.ReLU(negative_slope=0.1, name", {"operator", "leaky-slope"}),
    ("leaky slope", r"negative_slope=0\.\d", "negative_slope=0.01", {"leaky-slope"}),
    ("resize: nearest", r'interpolation="bilinear"', 'interpolation="nearest"',
     {"resize-mode", "resize-coordinate_transformation_mode"}),
    ("sum: product", r"L\.Add\(", "L.Multiply(", {"operator"}),
    ("swish: mish", r'L\.Activation\("swish"', 'L.Activation("mish"', {"operator"}),
    ("branches swapped", r"\(\[(\w+), (\w+)", r"([\2, \1", {"input-order"}),
    ("activation left out", r', activation="(?:relu|elu|tanh)"', "", {"missing-layer"}),
)  # fmt: skip
"""Kind, what is looked for in a line, what it becomes, what explains it."""
