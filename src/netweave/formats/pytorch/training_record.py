"""The first updates of a module's training: gradients, moving statistics, and what the optimizer did."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from netweave.errors import CodeError, UsageError

Loss = Callable[[Any], torch.Tensor]

CONSTANT = {"detach", "detach_", "data"}
"""Functions that return the values of what they are given, without its gradient."""

STOPPING = {
    "detach",
    "detach_",
    "round",
    "floor",
    "ceil",
    "sign",
    "trunc",
    "argmax",
    "bucketize",
    "heaviside",
}
"""Functions that no gradient passes."""

MAX_CUTS, MAX_OUTPUTS = 16, 8
"""So many cuts are let through in turn, and gradients of so many outputs are taken apart."""

PYTORCH = str(Path(torch.__file__).parent)
NETWEAVE = str(Path(__file__).parents[2])


def generic_loss(outputs: Any) -> torch.Tensor:
    """Return a number that depends on every output, whatever their order, names and layout.

    It is neither linear nor quadratic, so that the gradient of a softmax and of a norm is not zero.
    """
    total = torch.zeros(())
    for leaf in tree_leaves(outputs):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.requires_grad:
            z = leaf / leaf.detach().square().mean().sqrt().clamp_min(1e-30)
            total = total + (z + z * z / 2 + torch.sin(2 * z)).mean()
    return total


def record_training(
    module: torch.nn.Module,
    inputs: Mapping[str, Any],
    *,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    before_update: Callable[[], Any] | None = None,
    num_updates: int = 3,
    files: Collection[str] = (),
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
    """Train a module for a few updates on one batch, and put everything back.

    Dropout is the identity; other random numbers start from one seed.

    Args:
        module: The module; it is in training mode meanwhile.
        inputs: Arguments of ``forward`` by name.
        loss: Returns the loss of what the module returns; by default ``generic_loss``.
        optimizer: Of the module's parameters; without one there is one backward pass and no update.
        before_update: Called between backward and update, as to clip gradients.
        num_updates: Updates of the optimizer.
        files: Full paths of the code whose lines are named; any outside of PyTorch's if empty.

    Returns:
        Arrays by kind (``gradients/0``) and name, and the rest as JSON values. ``passed/0`` has the gradients
        that there are where the first of ``cuts`` lets them through, ``by-output/0`` those that come from the
        first output alone.

    Raises:
        CodeError: The loss is not finite.
    """
    watch = _Watch(files)
    before = _Values(module)
    state = optimizer.state_dict() if optimizer is not None else None
    state = _cloned(state)
    modes = {part: part.training for part in module.modules()}
    gradients = {p: p.grad for p in module.parameters()}
    seed = torch.random.get_rng_state()
    try:
        with _without_recurrent_dropout(module, watch):
            arrays, rest = _updates(
                module, inputs, loss, optimizer, before_update, num_updates, watch, before
            )
    finally:
        torch.random.set_rng_state(seed)
        before.restore()
        if optimizer is not None:
            optimizer.load_state_dict(state)
        for part, mode in modes.items():
            part.training = mode
        for p, gradient in gradients.items():
            p.grad = gradient
    return arrays, rest | {
        "dropouts": [list(each) for each in dict.fromkeys(watch.dropouts)],
        "cuts": [list(each) for each in dict.fromkeys(watch.cuts)],
    }


class _Values:
    """Copies of all parameters and buffers of a module, also of those that no state dict has."""

    def __init__(self, module: torch.nn.Module) -> None:
        tables = [table for part in module.modules() for table in (part._parameters, part._buffers)]
        self._rows = [
            (table, name, tensor, tensor.detach().clone())
            for table in tables
            for name, tensor in table.items()
            if tensor is not None
        ]

    def restore(self) -> None:
        """Put the same tensors back with the values that they had."""
        with torch.no_grad():
            for table, name, tensor, values in self._rows:
                table[name] = tensor.copy_(values)


def _cloned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _cloned(item) for key, item in value.items()}
    return [_cloned(item) for item in value] if isinstance(value, list) else value


def _updates(
    module: torch.nn.Module,
    inputs: Mapping[str, Any],
    loss: Loss | None,
    optimizer: torch.optim.Optimizer | None,
    before_update: Callable[[], Any] | None,
    num_updates: int,
    watch: _Watch,
    before: _Values,
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
    names = _names(module)
    first = {name: p for p, (name, *_) in names.items()}

    def forward() -> tuple[Any, torch.Tensor]:
        module.zero_grad(set_to_none=True)
        torch.manual_seed(0)
        outputs = module(**inputs)
        return outputs, (loss or generic_loss)(outputs)

    buffers = {name: b for name, b in module.named_buffers() if b.is_floating_point()}
    arrays: dict[str, dict[str, np.ndarray]] = {"weight": _arrays(first), "buffer": _arrays(buffers)}
    losses: list[float] = []
    module.train()
    for number in range(num_updates if optimizer is not None else 1):
        if number:
            _, value = forward()
        else:
            with watch:
                outputs, value = forward()
            leaves = [
                x for x in tree_leaves(outputs) if isinstance(x, torch.Tensor) and x.is_floating_point()
            ]
            arrays["output"] = _arrays({str(index): x for index, x in enumerate(leaves)})
            arrays["updated-buffer"] = _arrays(buffers)
            arrays |= _by_output(value, leaves, first)
        _backward(value)
        losses.append(float(value.detach()))
        arrays[f"gradients/{number}"] = _gradients(first)
        if optimizer is None:
            break
        if before_update is not None:
            before_update()
            arrays[f"prepared/{number}"] = _gradients(first)
        optimizer.step()
        arrays[f"updated/{number}"] = _arrays(first)
    before.restore()
    for index, cut in enumerate(list(dict.fromkeys(watch.cuts))[:MAX_CUTS]):
        with watch.passing(cut):
            _, value = forward()
        _backward(value)
        arrays[f"passed/{index}"] = _gradients(first)
    batch = next((len(x) for x in inputs.values() if getattr(x, "ndim", 0)), 0)
    return arrays, {
        "losses": losses,
        "batch": batch,
        "momenta": _momenta(module, buffers),
        "frozen": sorted(name for name, p in first.items() if not p.requires_grad),
        "tied": {name: others for name, *others in names.values() if others},
        "rules": _rules(first, optimizer) if optimizer is not None else {},
    }


def _by_output(
    value: torch.Tensor, outputs: Sequence[torch.Tensor], parameters: Mapping[str, torch.nn.Parameter]
) -> dict[str, dict[str, np.ndarray]]:
    """Return the gradient of the loss by each output, and those that come from each of several alone."""
    leaves = {str(index): x for index, x in enumerate(outputs) if x.requires_grad}
    learning = {name: p for name, p in parameters.items() if p.requires_grad}
    if not leaves or not value.requires_grad:
        return {}
    of_leaves = torch.autograd.grad(value, list(leaves.values()), retain_graph=True, allow_unused=True)
    named = {name: x for name, x in zip(leaves, of_leaves, strict=True) if x is not None}
    arrays = {"output-gradient": _arrays(named)}
    if not 1 < len(leaves) <= MAX_OUTPUTS:
        return arrays
    for index, (leaf, gradient) in enumerate(zip(leaves.values(), of_leaves, strict=True)):
        if gradient is not None:
            parts = torch.autograd.grad(
                leaf, list(learning.values()), gradient, retain_graph=True, allow_unused=True
            )
            of_parts = {name: x.to_dense() for name, x in zip(learning, parts, strict=True) if x is not None}
            arrays[f"by-output/{index}"] = _arrays(of_parts)
    return arrays


def _backward(value: torch.Tensor) -> None:
    if not torch.isfinite(value).all():
        raise CodeError(f"the loss is {float(value.detach())}")
    if value.requires_grad:
        value.backward()


def _names(module: torch.nn.Module) -> dict[torch.nn.Parameter, list[str]]:
    """Return the names of each parameter: several for one that is tied."""
    names: dict[torch.nn.Parameter, list[str]] = {}
    for name, p in module.named_parameters(remove_duplicate=False):
        names.setdefault(p, []).append(name)
    return names


def _arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    return {name: _array(x) for name, x in tensors.items()}


def _array(x: torch.Tensor) -> np.ndarray:
    x = x.detach().cpu()
    return np.array((x if x.dtype in {torch.float32, torch.float64} else x.float()).numpy())


def _gradients(parameters: Mapping[str, torch.nn.Parameter]) -> dict[str, np.ndarray]:
    dense = {name: p.grad.to_dense() for name, p in parameters.items() if p.grad is not None}
    return _arrays(dense)


def _momenta(module: torch.nn.Module, buffers: Collection[str]) -> dict[str, float]:
    found = {}
    for name in buffers:
        owner = module.get_submodule(name.rpartition(".")[0])
        momentum = getattr(owner, "momentum", None)
        if isinstance(momentum, float):
            found[name] = momentum
    return found


ADAM = {"Adam", "AdamW"}


def _rules(
    parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer
) -> dict[str, dict[str, Any]]:
    """Return the settings of the optimizer by weight, under the names of ``comparison.training_step``."""
    groups = {p: group for group in optimizer.param_groups for p in group["params"]}
    own = type(optimizer).__module__.startswith("torch.optim")
    kind = type(optimizer).__name__
    rules = {}
    for name, p in parameters.items():
        if p not in groups:
            continue
        group = groups[p]
        rule = {
            key: _plain(value) for key, value in group.items() if key in KEYS and _plain(value) is not None
        }
        rule["kind"] = "Adam" if own and kind in ADAM else kind
        rule["is_decoupled"] = kind == "AdamW" or bool(group.get("decoupled_weight_decay"))
        if isinstance(group.get("betas"), list | tuple):
            rule["beta1"], rule["beta2"] = map(float, group["betas"])
        if "initial_accumulator_value" in group:
            rule["initial"] = float(group["initial_accumulator_value"])
        if group.get("amsgrad"):
            rule["kind"] = "AMSGrad"
        rules[name] = rule
    return rules


KEYS = {
    "lr",
    "weight_decay",
    "maximize",
    "momentum",
    "dampening",
    "nesterov",
    "eps",
    "alpha",
    "centered",
    "lr_decay",
}
"""Settings of a group that are called the same."""


def _plain(value: Any) -> float | bool | str | None:
    if isinstance(value, bool | str):
        return value
    return float(value) if isinstance(value, int | float) or getattr(value, "ndim", 1) == 0 else None


@contextmanager
def _without_recurrent_dropout(module: torch.nn.Module, watch: _Watch) -> Iterator[None]:
    """Have recurrent layers drop nothing, until the context ends: theirs is no function of its own."""
    rates = {
        (name, part): part.dropout
        for name, part in module.named_modules()
        if isinstance(part, torch.nn.RNNBase) and part.dropout
    }
    for (name, part), rate in rates.items():
        watch.dropouts.append((float(rate), name))
        part.dropout = 0.0
    try:
        yield
    finally:
        for (_, part), rate in rates.items():
            part.dropout = rate


class _Watch(TorchFunctionMode):  # type: ignore[misc]  # torch is not looked into
    """Turns dropout off, and notes what no gradient passes, with the lines that call it."""

    def __init__(self, files: Collection[str]) -> None:
        super().__init__()
        self._files = set(files)
        self.dropouts: list[tuple[float, str]] = []
        self.cuts: list[tuple[str, str]] = []
        self._passed: tuple[str, str] | None = None

    @contextmanager
    def passing(self, cut: tuple[str, str]) -> Iterator[None]:
        """Watch a forward pass in which one cut lets gradients through."""
        self._passed = cut
        try:
            with self:
                yield
        finally:
            self._passed = None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Make a call, without dropout."""
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if "dropout" in name and name != "dropout_":
            rate = float(named.get("p", args[1] if len(args) > 1 else 0.5))
            if named.get("training", args[2] if len(args) > 2 else True) and rate:
                self.dropouts.append((rate, self._place()))
            return args[0] if args else named["input"]
        if name == "scaled_dot_product_attention" and named.get("dropout_p"):
            self.dropouts.append((float(named["dropout_p"]), self._place()))
            named["dropout_p"] = 0.0
        if name == "__get__" and func is torch.Tensor.data.__get__:
            name = "data"
        if not any(map(_is_learning, args)):
            return func(*args, **named)
        if func == torch.Tensor.data.__get__:
            name = "data"
        if name not in {"data", *STOPPING}:
            if torch.is_grad_enabled() or name.startswith("__"):
                return func(*args, **named)
            name = "no_grad"
        cut = name, self._place()
        if cut[1] and self._passed is None:
            self.cuts.append(cut)
        return self._let_through(name, func, args, named) if cut == self._passed else func(*args, **named)

    def _let_through(self, name: str, func: Any, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Make a call that lets the gradient of what it is given pass."""
        if name == "no_grad":
            with torch.enable_grad():
                return func(*args, **named)
        if name in CONSTANT:
            return args[0]
        made = func(*args, **named)
        return args[0] + (made - args[0]).detach() if made.is_floating_point() else made

    def _place(self) -> str:
        """Return the file and line of the user's code that calls, the innermost."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and not frame.f_code.co_filename.startswith(NETWEAVE):
            file = frame.f_code.co_filename
            if file in self._files if self._files else not file.startswith((PYTORCH, "<")):
                return f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return ""


def _is_learning(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def train_code(
    module: torch.nn.Module,
    inputs: Mapping[str, np.ndarray],
    settings: Mapping[str, Any],
    files: Collection[str],
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, Any]]:
    """Record a module that was made from files, in double precision if its code can do it.

    Args:
        module: The module.
        inputs: One batch, by the names that an export gives them.
        settings: ``loss``, the name of a function of the files that is given what the module returns, or
            None; ``optimizer``, that of one that is given the module and returns an optimizer, or None for
            the module's own ``configure_optimizers``; and ``num_updates``.
        files: Full paths of the files.

    Raises:
        CodeError: There is no such function, or the code fails.
    """
    loss = _function(settings.get("loss"), files)
    last: Exception | None = None
    for dtype in (torch.float64, torch.float32):
        module = module.to(dtype)
        tensors = {name: torch.from_numpy(x) for name, x in inputs.items()}
        given = {name: x.to(dtype) if x.is_floating_point() else x for name, x in tensors.items()}
        try:
            return record_training(
                module,
                given,
                loss=loss,
                optimizer=_optimizer(module, settings.get("optimizer"), files),
                num_updates=int(settings["num_updates"]),
                files=files,
            )
        except RuntimeError as error:  # a cast that the code does itself
            last = error
    raise CodeError(f"cannot be trained: {last}") from last


def _function(name: str | None, files: Collection[str]) -> Callable[..., Any] | None:
    """Return a function of the files.

    Raises:
        CodeError: There is none of this name.
    """
    if name is None:
        return None
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) in files and callable(getattr(module, name, None)):
            found: Callable[..., Any] = getattr(module, name)
            return found
    raise CodeError(f"has no function {name!r}")


def _optimizer(
    module: torch.nn.Module, name: str | None, files: Collection[str]
) -> torch.optim.Optimizer | None:
    make = _function(name, files)
    if make is None:
        configure = getattr(module, "configure_optimizers", None)  # as Lightning calls it
        made = configure() if callable(configure) else None
    else:
        made = make(module)
    while isinstance(made, list | tuple | dict) and made:
        made = made.get("optimizer") if isinstance(made, dict) else made[0]
    if made is not None and not isinstance(made, torch.optim.Optimizer):
        raise CodeError(
            f"{name or 'configure_optimizers'} returns {type(made).__name__}, expected an optimizer"
        )
    return made


def bound_inputs(module: torch.nn.Module, inputs: Any) -> dict[str, Any]:
    """Return arguments of ``forward`` by name, of a tensor, several in order, or a mapping.

    Raises:
        UsageError: They do not fit ``forward``.
    """
    if isinstance(inputs, Mapping):
        return dict(inputs)
    values = inputs if isinstance(inputs, list | tuple) else (inputs,)
    try:
        return dict(inspect.signature(module.forward).bind(*values).arguments)
    except TypeError as error:
        raise UsageError(f"the inputs do not fit forward of {type(module).__name__}: {error}") from error
