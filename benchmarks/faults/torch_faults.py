"""Faults planted in the source of PyTorch nets, or in their state dicts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.faults.arrays import array_faults, spread
from benchmarks.faults.model import Fault
from benchmarks.faults.torch_source import Line, edited, lines_of

if TYPE_CHECKING:
    from benchmarks.faults.torch_nets import TorchNet

Settings = Mapping[str, str]
FACTOR = 997.0
"""What stored statistics are left times."""


def faults(net: TorchNet, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a net.

    Args:
        net: The net.
        count: Faults of one kind.
    """
    for make in (_settings, _groups, _calls, _order, _functions, _arrays):
        yield from make(net, count)


def _planted(
    net: TorchNet,
    kind: str,
    layer: str,
    mismatches: set[str],
    changed: TorchNet,
    *,
    in_table: bool = True,
    beside: tuple[str, ...] = (),
) -> Fault:
    return Fault(kind, layer, frozenset(mismatches), changed.net(), in_table, beside)


def _edited(
    net: TorchNet, kind: str, layer: str, mismatches: set[str], *rows: tuple[Line, str], **more: Any
) -> Fault:
    """Return a fault for which lines of the source have another text."""
    return _planted(net, kind, layer, mismatches, net.having(source=edited(net.source, *rows)), **more)


def _any(_: Settings) -> bool:
    return True


def _windowed(settings: Settings) -> bool:
    return settings.get("kernel_size", "1") not in {"1"} and "(" not in settings.get("kernel_size", "")


def _padded(settings: Settings) -> bool:
    return settings.get("padding", "0") != "0" and "(" not in settings["padding"]


def _more(name: str, default: int, by: int = 1) -> Callable[[Settings], dict[str, str]]:
    return lambda old: {name: f"{old.get(name, default)} + {by}"}


def _to(**new: str) -> Callable[[Settings], dict[str, str]]:
    return lambda old: new


def _times(name: str, factor: str) -> Callable[[Settings], dict[str, str]]:
    return lambda old: {name: f"{old[name]} * {factor}"}


def _dilated(old: Settings) -> dict[str, str]:
    return {"dilation": "2", "padding": f"{old.get('padding', 0)} + {(int(old['kernel_size']) - 1) // 2}"}


def _rounded(old: Settings) -> dict[str, str]:
    return {"ceil_mode": str(old.get("ceil_mode", "False") != "True")}


Edit = tuple[str, str, Callable[[Settings], bool], Callable[[Settings], dict[str, str]], set[str], bool]

NEAREST = {"resize-mode", "resize-coordinate_transformation_mode"}
"""PyTorch's ``nearest`` counts pixels from their corners, ``bilinear`` from their centres."""

SETTINGS: tuple[Edit, ...] = (
    ("conv: padding", "Conv2d", _any, _more("padding", 0), {"padding"}, True),
    ("conv: stride", "Conv2d", _any, _more("stride", 1), {"stride"}, True),
    ("conv: dilation", "Conv2d", _windowed, _dilated, {"dilation", "padding"}, True),
    ("conv: padding mode", "Conv2d", _padded, _to(padding_mode="'replicate'"), set(), False),
    ("pool: kernel", "MaxPool2d", _windowed, _more("kernel_size", 1), {"kernel-size"}, True),
    ("pool: kernel", "AvgPool2d", _windowed, _more("kernel_size", 1), {"kernel-size"}, True),
    ("pool: stride", "MaxPool2d", _windowed, _more("stride", 1), {"stride"}, True),
    ("pool: stride", "AvgPool2d", _windowed, _more("stride", 1), {"stride"}, True),
    ("pool: padding", "MaxPool2d", _windowed, _more("padding", 0), {"padding"}, True),
    ("pool: rounding", "MaxPool2d", _windowed, _rounded, {"pool-rounding"}, True),
    ("pool: rounding", "AvgPool2d", _windowed, _rounded, {"pool-rounding"}, True),
    ("pool: padding counted", "AvgPool2d", _padded, _to(count_include_pad="False"),
     {"count-include-pad"}, True),
    ("lrn: alpha not divided", "LocalResponseNorm", _any, _times("alpha", "5"), {"lrn-alpha"}, True),
    ("lrn: beta", "LocalResponseNorm", _any, _to(beta="0.5"), {"lrn-beta"}, True),
    ("lrn: k", "LocalResponseNorm", _any, _to(k="2.0"), {"lrn-k"}, True),
    ("bn: eps", "BatchNorm2d", _any, _to(eps="0.1"), {"epsilon"}, True),
    ("ln: eps", "LayerNorm", _any, _to(eps="0.1"), {"epsilon"}, True),
    ("in: eps", "InstanceNorm2d", _any, _to(eps="0.5"), {"epsilon"}, True),
    ("leaky slope", "LeakyReLU", _any, _to(negative_slope="0.01"), {"leaky-slope"}, True),
    ("elu: alpha", "ELU", _any, _to(alpha="1.0"), {"elu-alpha"}, True),
    ("gelu: tanh", "GELU", _any, _to(approximate="'tanh'"), {"gelu-approximate"}, True),
    ("softmax axis", "Softmax", _any, _to(dim="0"), {"softmax-axis"}, True),
    ("resize: corners", "Upsample", _any, _to(align_corners="True"),
     {"resize-coordinate_transformation_mode"}, True),
    ("resize: nearest", "Upsample", _any, _to(mode="'nearest'", align_corners="None"), NEAREST, True),
    ("deconv: padding", "ConvTranspose2d", _any, _to(padding="2", output_padding="0"),
     {"padding", "convtranspose-output_padding"}, True),
    ("deconv: output padding", "ConvTranspose2d", _any, _to(output_padding="0"),
     {"convtranspose-output_padding"}, True),
)  # fmt: skip
"""Kind, module, which of them, what is set to what, mismatches that explain it, whether the table has it."""

MODULES: tuple[tuple[str, str, str, set[str]], ...] = (
    ("pool: operator", "MaxPool2d", "nn.AvgPool2d", {"operator"}),
    ("pool: operator", "AvgPool2d", "nn.MaxPool2d", {"operator"}),
    ("pool: operator", "AdaptiveAvgPool2d", "nn.AdaptiveMaxPool2d", {"operator"}),
    ("relu: leaky", "ReLU", "nn.LeakyReLU(0.1)", {"operator", "leaky-slope"}),
    ("relu: sigmoid", "ReLU", "nn.Sigmoid()", {"operator"}),
    ("relu: other", "ReLU6", "nn.ReLU()", {"operator"}),
    ("sigmoid: tanh", "Sigmoid", "nn.Tanh()", {"operator"}),
    ("gelu: relu", "GELU", "nn.ReLU()", {"operator"}),
    ("elu: relu", "ELU", "nn.ReLU()", {"operator"}),
)
"""Kind, module, what it becomes (with its own arguments, or with those that are given), mismatches."""

REMOVABLE = frozenset(
    {"ReLU", "ReLU6", "LeakyReLU", "PReLU", "Sigmoid", "ELU", "GELU", "BatchNorm2d", "LocalResponseNorm",
     "InstanceNorm2d", "LayerNorm"}
)  # fmt: skip
TWICE = frozenset({"Sigmoid", "LeakyReLU", "PReLU", "ELU", "BatchNorm2d", "LocalResponseNorm"})

ACTIVATIONS = frozenset({"ReLU", "ReLU6", "LeakyReLU", "PReLU", "Sigmoid", "Tanh", "ELU"})
ORDERED = (
    (frozenset({"BatchNorm2d", "LocalResponseNorm", "AvgPool2d"}), ACTIVATIONS),
    (ACTIVATIONS, frozenset({"BatchNorm2d", "LocalResponseNorm", "AvgPool2d"})),
    (frozenset({"LocalResponseNorm"}), frozenset({"MaxPool2d", "AvgPool2d"})),
    (frozenset({"MaxPool2d", "AvgPool2d"}), frozenset({"LocalResponseNorm"})),
)
"""Neighbours whose order matters: what may stand first, and what then second."""


def _made(net: TorchNet) -> list[Line]:
    """Return the lines that make modules."""
    return [line for line in lines_of(net.source) if line.function.startswith("nn.")]


def norms(net: TorchNet) -> list[str]:
    """Return the names of the normalisations with stored statistics."""
    return [line.target for line in _made(net) if line.function == "nn.BatchNorm2d"]


def _settings(net: TorchNet, count: int) -> Iterator[Fault]:
    made = _made(net)
    for kind, name, test, change, mismatches, in_table in SETTINGS:
        places = [line for line in made if line.function == f"nn.{name}" and test(line.settings)]
        if name == "AvgPool2d":
            places = [line for line in places if line.settings.get("stride") != "1"]
        for line in spread(places, count):
            text = line.having(**change(line.settings)).text()
            yield _edited(net, kind, line.target, mismatches, (line, text), in_table=in_table)
    for kind, name, other, mismatches in MODULES:
        for line in spread([line for line in made if line.function == f"nn.{name}"], count):
            kept = {k: v for k, v in line.settings.items() if k != "count_include_pad"}
            text = replace(line, function=other, settings=kept).text()
            if "(" in other:
                text = f"self.{line.target} = {other}"
            yield _edited(net, kind, line.target, mismatches, (line, text))
    for line in spread([line for line in made if line.function == "nn.PReLU"], count):
        text = f"self.{line.target} = nn.LeakyReLU(0.25)"
        arrays = {k: v for k, v in net.arrays.items() if k != f"{line.target}.weight"}
        changed = net.having(source=edited(net.source, (line, text)), arrays=arrays)
        yield _planted(net, "prelu: leaky", line.target, {"operator", "slope", "leaky-slope"}, changed)
    for line in spread([line for line in made if f"{line.target}.bias" in net.arrays
                        and line.function in {"nn.Conv2d", "nn.Linear"}], count):  # fmt: skip
        arrays = {k: v for k, v in net.arrays.items() if k != f"{line.target}.bias"}
        source = edited(net.source, (line, line.having(bias="False").text()))
        changed = net.having(source=source, arrays=arrays)
        yield _planted(net, "bias left out", line.target, {"missing-bias", "weights"}, changed)


def _groups(net: TorchNet, count: int) -> Iterator[Fault]:
    """Yield convolutions without their groups: each filter reads every group by the same weights."""
    grouped = [line for line in _made(net) if line.function == "nn.Conv2d" and "groups" in line.settings]
    for line in spread(grouped, count):
        key, groups = f"{line.target}.weight", int(line.settings["groups"])
        plain = replace(line, settings={k: v for k, v in line.settings.items() if k != "groups"})
        arrays = {**net.arrays, key: np.tile(net.arrays[key], (1, groups, 1, 1))}
        changed = net.having(source=edited(net.source, (line, plain.text())), arrays=arrays)
        yield _planted(net, "conv: groups", line.target, {"group"}, changed)
    sized = [line for line in _made(net) if line.function == "nn.LocalResponseNorm"]
    for line in spread(sized, count):
        text = replace(line, arguments=(f"{line.arguments[0]} + 2",)).text()
        yield _edited(net, "lrn: size", line.target, {"lrn-size"}, (line, text))


def _order(net: TorchNet, count: int) -> Iterator[Fault]:
    """Yield nets in which two layers after one another have changed places."""
    kinds = {line.target: line.function.removeprefix("nn.") for line in _made(net)}
    calls = [line for line in lines_of(net.source) if line.member]
    pairs = [
        (first, second)
        for first, second in pairwise(calls)
        if second.number == first.number + 1
        and second.arguments == (first.target,)
        and any(kinds[first.function] in a and kinds[second.function] in b for a, b in ORDERED)
        and _readers(net, first) == 1
    ]
    for first, second in spread(pairs, count):
        swapped = (replace(first, function=second.function), replace(second, function=first.function))
        rows = [(line, new.text()) for line, new in zip((first, second), swapped, strict=True)]
        beside = (second.function,)
        yield _edited(net, "layer order", first.function, {"layer-order"}, *rows, beside=beside)


def _readers(net: TorchNet, made: Line) -> int:
    """Return how many lines read what a line makes, until its name is given to something else."""
    count = 0
    for line in lines_of(net.source):
        if line.number > made.number:
            count += any(re.search(rf"\b{made.target}\b", argument) for argument in line.arguments)
            if line.target == made.target:
                return count
    return count


def _calls(net: TorchNet, count: int) -> Iterator[Fault]:
    """Yield faults in how modules are called: left out, twice, in another order, one-sided padding."""
    kinds = {line.target: line.function.removeprefix("nn.") for line in _made(net)}
    makers = {line.target: line for line in _made(net)}
    calls = [line for line in lines_of(net.source) if line.member]
    missing = {"missing-layer"}
    for line in spread([line for line in calls if kinds[line.function] in REMOVABLE], count):
        row = line, f"{line.target} = {line.arguments[0]}"
        yield _edited(net, "layer left out", line.function, missing, row, in_table=False)
    for line in spread([line for line in calls if kinds[line.function] in TWICE], count):
        text = replace(line, arguments=(f"self.{line.function}({line.arguments[0]})",)).text()
        yield _edited(net, "layer twice", line.function, missing, (line, text), in_table=False)
    strided = [
        line for line in calls if kinds[line.function] == "Conv2d" and _padded(makers[line.function].settings)
    ]
    for line in spread(strided, count):
        maker = makers[line.function]
        pad = int(maker.settings["padding"])
        moved = f"functional.pad({line.arguments[0]}, (0, {2 * pad}, 0, {2 * pad}))"
        plain = replace(maker, settings={k: v for k, v in maker.settings.items() if k != "padding"})
        source = edited(net.source, (maker, plain.text()), (line, replace(line, arguments=(moved,)).text()))
        source = source.replace(
            "from torch import nn\n", "from torch import nn\nfrom torch.nn import functional\n", 1
        )
        yield _planted(net, "conv: padding at the end", line.function, {"padding"}, net.having(source=source))


def _functions(net: TorchNet, count: int) -> Iterator[Fault]:
    """Yield faults in calls of functions; their layers are named after them, as PyTorch's tracer does."""
    lines, seen, joins = list(lines_of(net.source)), Counter[str](), []
    for line in lines:
        if line.function == "torch.cat":
            number = seen["cat"]
            joins.append((line, f"cat_{number}" if number else "cat"))
            seen["cat"] += 1
    for line, name in spread(joins, count):
        parts = line.arguments[0].strip("[]").split(", ")
        text = replace(line, arguments=(f"[{', '.join([parts[1], parts[0], *parts[2:]])}]",)).text()
        yield _edited(net, "branches swapped", name, {"input-order"}, (line, text), in_table=False)
    for line, name in spread(joins, count):
        row = line, line.having(dim="2").text()
        yield _edited(net, "concat axis", name, {"concat-axis"}, row)
    flats = [(line, _reader(lines, line)) for line in lines if line.function == "torch.flatten"]
    for line, reader in spread([row for row in flats if row[1] in net.images], count):
        if min(net.images[reader][1:]) > 1:
            turned = f"{line.arguments[0]}.permute(0, 2, 3, 1)"
            text = replace(line, arguments=(turned, *line.arguments[1:])).text()
            yield _edited(net, "flatten: channels last", reader, {"flatten-order"}, (line, text))


def _reader(lines: list[Line], flat: Line) -> str:
    """Return the module that reads what a line makes."""
    later = (line for line in lines if line.number > flat.number and line.member)
    return next((line.function for line in later if flat.target in line.arguments), "")


def _arrays(net: TorchNet, count: int) -> Iterator[Fault]:
    for found in array_faults(net.stored(), net.arrays, count=count):
        changed = net.having(arrays={**net.arrays, found.stored.key: found.values})
        yield _planted(
            net, found.kind, found.stored.layer, set(found.mismatches), changed, in_table=found.in_table
        )
    for layer in spread(norms(net), count):
        keys = (f"{layer}.running_mean", f"{layer}.running_var")
        wrong = {key: (net.arrays[key] * np.float32(FACTOR)).astype(np.float32) for key in keys}
        changed = net.having(arrays={**net.arrays, **wrong})
        yield _planted(net, "bn: scale factor", layer, {"bn-scale-factor"}, changed)
