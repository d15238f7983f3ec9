"""Faults planted in the text or the arrays of Darknet nets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.faults.arrays import array_faults, spread
from benchmarks.faults.darknet_nets import NETS, DarknetNet, draw, folded, layer_name
from benchmarks.faults.model import Fault, Subject, Subjects, Wanted

COUNT = 2
"""Faults of one kind in one net."""

Settings = dict[str, str]


def subjects(wanted: Wanted) -> Subjects:
    """Yield every net that is wanted with its folded form and its faults."""
    for name in filter(lambda name: wanted(f"darknet-{name}"), NETS):
        net = draw(name)
        partners = {"folded": folded(net).net()}
        yield Subject(f"darknet-{name}", net.net(), partners, list(faults(net, count=COUNT)))


def faults(net: DarknetNet, *, count: int) -> Iterator[Fault]:
    """Yield the faults of a net."""
    for kind, section, test, change, mismatches, in_table in EDITS:
        places = [i for i, (k, settings) in enumerate(net.sections) if k == section and test(settings)]
        for place in spread(places, count):
            made = net.having(place, **change(net.sections[place][1]))
            if made.sections == net.sections:
                continue
            yield Fault(kind, layer_name(net.sections, place), frozenset(mismatches), made.net(), in_table)
    for found in array_faults(net.stored(), net.arrays, count=count):
        made = replace(net, arrays={**net.arrays, found.stored.key: found.values})
        yield Fault(found.kind, found.stored.layer, found.mismatches, made.net(), found.in_table)


def _any(settings: Settings) -> bool:
    return True


def _active(name: str) -> Callable[[Settings], bool]:
    return lambda settings: settings.get("activation") == name


def _windowed(settings: Settings) -> bool:
    return int(settings["size"]) > 1


def _branches(settings: Settings) -> bool:
    return "," in settings["layers"]


def _part(settings: Settings) -> bool:
    return settings.get("group_id") == "1"


def _more(name: str, by: int = 1) -> Callable[[Settings], Settings]:
    return lambda old: {name: str(int(old[name]) + by)}


def _to(**new: str) -> Callable[[Settings], Settings]:
    return lambda old: new


def _swapped(old: Settings) -> Settings:
    first, second, *rest = old["layers"].split(",")
    return {"layers": ",".join([second, first, *rest])}


SLOPES = {"operator", "leaky-slope"}

Edit = tuple[str, str, Callable[[Settings], bool], Callable[[Settings], Settings], set[str], bool]

EDITS: tuple[Edit, ...] = (
    ("conv: padding", "convolutional", _windowed, _to(pad="0"), {"padding"}, True),
    ("conv: padding", "convolutional", _windowed, _to(pad="0", padding="2"), {"padding"}, True),
    ("conv: stride", "convolutional", _any, _more("stride"), {"stride"}, True),
    ("conv: dilation", "convolutional", lambda s: _windowed(s) and "groups" not in s,
     _to(dilation="2", pad="0", padding="2"), {"dilation", "padding"}, True),
    ("pool: kernel", "maxpool", _any, _more("size"), {"kernel-size", "padding"}, True),
    ("pool: stride", "maxpool", _any, _more("stride"), {"stride"}, True),
    ("pool: padding", "maxpool", _any, _to(padding="0"), {"padding"}, True),
    ("leaky: relu", "convolutional", _active("leaky"), _to(activation="relu"), SLOPES, True),
    ("relu: leaky", "convolutional", _active("relu"), _to(activation="leaky"), SLOPES, True),
    ("mish: swish", "convolutional", _active("mish"), _to(activation="swish"), {"operator"}, True),
    ("swish: mish", "convolutional", _active("swish"), _to(activation="mish"), {"operator"}, True),
    ("sigmoid: tanh", "convolutional", _active("logistic"), _to(activation="tanh"), {"operator"}, True),
    ("activation left out", "convolutional", _active("leaky"), _to(activation="linear"),
     {"missing-layer"}, False),
    ("activation left out", "shortcut", _active("leaky"), _to(activation="linear"), {"missing-layer"}, False),
    ("activation added", "shortcut", _active("linear"), _to(activation="leaky"), {"missing-layer"}, False),
    ("branches swapped", "route", _branches, _swapped, {"input-order"}, False),
    ("another part", "route", _part, _to(group_id="0"), {"input"}, False),
    ("another branch", "shortcut", _any, _to(from_="-2"), {"input"}, False),
)  # fmt: skip
"""Kind, section, which of them, what is set to what, mismatches that explain it, whether the table has it."""
