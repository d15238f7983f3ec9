"""The isolated layer test on a live module: one of its layers is given the tensors of a dump."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.dumps import capture, captured_tensors, read_dump
from netweave.comparison.dumps.tensors import (
    TOLERANCES,
    TensorIndex,
    TensorPair,
    alike,
    comparable_arrays,
    error_of,
    match_tensors,
    precision_of,
)
from netweave.errors import UsageError
from netweave.formats.pytorch import is_module
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    import torch

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Injection:
    """The result of a layer on the tensors of a dump.

    Attributes:
        at: Name of the layer in the module.
        given: Tensor of the dump that each of its inputs was replaced by, by the name of the argument.
        output: Tensor of the dump that the layer returned, or should have returned; None if none is like it.
        error: Difference between the two, relative to the rms; None without such a tensor.
        agrees: Whether the difference is rounding: then the layer is right, and only its inputs were wrong.
    """

    at: str
    given: Mapping[str, str]
    output: str | None
    error: float | None
    agrees: bool

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {tensor!r}" for name, tensor in self.given.items())
        inputs = given or "its own inputs"
        if self.output is None or self.error is None:
            return f"not decidable: on {inputs}, {self.at} returns nothing that the dump resembles"
        left = f"{ratio_text(self.error)} of the rms" if self.error else "nothing"
        said = "is right" if self.agrees else "is wrong itself"
        return f"{self.at} {said}: on {inputs} it differs from {self.output!r} by {left}"


def inject(
    module: torch.nn.Module,
    dump: capture | Arrays | str | Path,
    *,
    at: str,
    given: Mapping[str, str] | None = None,
) -> Injection:
    """Run one layer of a module on the tensors that another implementation gave to its own.

    The module runs on the inputs of the dump. When the layer is called for the first time, each of its inputs
    is replaced by the tensor of the dump with the same values, or the one that resembles it most.

    Args:
        module: A PyTorch module, in the mode in which it is to run (``eval``).
        dump: What ``capture`` recorded of the other implementation, its tensors by name, or a file of them.
        at: Name of a submodule, as in ``named_modules``.
        given: Tensors of the dump for inputs of the layer, by the name of the argument, where they are known.

    Raises:
        UsageError: There is no such layer or tensor, the layer is not called, or an input is missing.
    """
    import torch

    if not is_module(module):
        raise UsageError(f"inject takes a PyTorch nn.Module, not {type(module).__name__}")
    layers = dict(module.named_modules())
    if at not in layers or not at:
        near = difflib.get_close_matches(at, list(layers), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "named_modules() lists them"
        raise UsageError(f"there is no layer {at!r} in the module: {hint}")
    arrays = _arrays(dump)
    for name in (given or {}).values():
        if name not in arrays:
            raise UsageError(f"the dump has no tensor {name!r}, which given names")
    tolerance = TOLERANCES[precision_of(arrays.values())]
    test = _Test(at, layers[at], comparable_arrays(arrays), tolerance, given or {})
    hooks = [
        layers[at].register_forward_pre_hook(test.on_inputs, with_kwargs=True),
        layers[at].register_forward_hook(test.on_output),
    ]
    try:
        with torch.no_grad():
            module(**{name: torch.tensor(x) for name, x in _inputs(module, arrays).items()})
    finally:
        for hook in hooks:
            hook.remove()
    if not test.is_called:
        raise UsageError(f"the layer {at!r} is not called when the module runs")
    return test.result(at)


def _arrays(dump: capture | Arrays | str | Path) -> dict[str, np.ndarray]:
    if isinstance(dump, capture):
        return dict(dump.tensors)
    if isinstance(dump, Mapping):
        return dict(dump)
    read = read_dump(f"dump:{dump}".replace("dump:dump:", "dump:"))
    assert read is not None
    return read[1]


def _inputs(module: torch.nn.Module, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return the inputs of the whole module: those of its arguments that the dump has.

    Raises:
        UsageError: One without a default is missing.
    """
    found = {}
    for name, argument in inspect.signature(module.forward).parameters.items():
        held = [key for key in (f"input.{name}", name) if key in arrays]
        if held:
            found[name] = arrays[held[0]]
        elif argument.default is argument.empty and argument.kind is argument.POSITIONAL_OR_KEYWORD:
            raise UsageError(f"the dump has no tensor 'input.{name}', which the module needs to run")
    return found


class _Test:
    """Replaces the inputs of a layer once, and keeps what it returns."""

    def __init__(
        self, at: str, layer: torch.nn.Module, arrays: Arrays, tolerance: float, names: Mapping[str, str]
    ) -> None:
        self._at, self._is_guess = at, False
        self._layer, self._arrays, self._tolerance, self._names = layer, arrays, tolerance, names
        self._given: dict[str, str] = {}
        self._returned: dict[str, np.ndarray] = {}
        self.is_called = False

    def on_inputs(self, layer: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments with tensors of the dump in their place."""
        if self.is_called:
            return None
        bound = inspect.signature(layer.forward).bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if hasattr(value, "detach") and value.is_floating_point():
                bound.arguments[name] = self._replaced(name, value)
        if self._is_guess and self._is_right_already(layer.forward(*args, **kwargs)):
            self._given.clear()  # the dump lacks what the layer reads: a sum that no layer returns
            return None
        return bound.args, bound.kwargs

    def _is_right_already(self, output: Any) -> bool:
        """Return whether a layer returns the tensors of its name on what it is given by the module itself."""
        returned = comparable_arrays(dict(captured_tensors("", output)))
        named = {name: self._arrays.get(self._at + name) for name in returned}
        return bool(returned) and all(
            wanted is not None and wanted.shape == x.shape and error_of(wanted, x) <= self._tolerance
            for wanted, x in ((named[name], x) for name, x in returned.items())
        )

    def _replaced(self, name: str, value: torch.Tensor) -> torch.Tensor:
        own = {name: value.detach().cpu().float().numpy()}
        arrays = {self._names[name]: self._arrays[self._names[name]]} if name in self._names else self._arrays
        pairs = self._pairs(arrays, own)
        if not pairs:
            return value
        self._given[name] = pairs[0].a
        x = pairs[0].change.apply(self._arrays[pairs[0].a])
        return value.new_tensor(np.ascontiguousarray(x)).reshape(value.shape)

    def _pairs(self, arrays: Arrays, own: Arrays) -> list[TensorPair]:
        found = match_tensors(arrays, TensorIndex(own, self._tolerance))
        exact = [pair for pairs in found.values() for pair in pairs]
        self._is_guess |= not exact
        return exact or sorted(alike(arrays, own), key=lambda pair: -pair.likeness)

    def on_output(self, layer: torch.nn.Module, args: Any, output: Any) -> None:
        """Keep what the layer returns, the first time."""
        if not self.is_called:
            self._returned = comparable_arrays(dict(captured_tensors("", output)))
            self.is_called = True

    def result(self, at: str) -> Injection:
        """Return how what the layer returned compares with the tensor of its name, or with any other."""
        worst: tuple[str | None, float | None] = None, None
        used = set(self._given.values())
        for name, x in self._returned.items():
            named = {key: y for key, y in self._arrays.items() if key == at + name and y.size == x.size}
            pairs = self._pairs(named or {k: y for k, y in self._arrays.items() if k not in used}, {name: x})
            found = [(pair.a, error_of(pair.change.apply(self._arrays[pair.a]), x)) for pair in pairs[:1]]
            found += [] if pairs else [(key, error_of(y.reshape(x.shape), x)) for key, y in named.items()]
            worst = max([worst, *found], key=lambda pair: -1.0 if pair[1] is None else pair[1])
        agrees = worst[1] is not None and worst[1] <= self._tolerance
        return Injection(at, self._given, *worst, agrees=agrees)
