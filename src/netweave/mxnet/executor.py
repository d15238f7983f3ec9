"""``mx.executor``: a symbol bound to sizes and to arrays of the caller's, to be run forward and backward.

The arrays that operators learn or change are the caller's own memory: the net reads and writes it in place,
and executors that are bound to the same arrays share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from netweave.errors import ShapeError, UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.formats.mxnet.symbol.build import build
from netweave.formats.mxnet.symbol.registry import ROLES
from netweave.formats.mxnet.symbol.settings import DTYPES
from netweave.formats.mxnet.symbol.symbol import cut
from netweave.formats.mxnet.symbol.vertex import Output, sorted_vertices
from netweave.graph import Graph, known_shape, unread_arrays
from netweave.mxnet import recording
from netweave.mxnet.context import Context, as_contexts
from netweave.mxnet.ndarray.array import NDArray, torch_type
from netweave.runtime.backends.torch import ParameterStore, TorchNet
from netweave.runtime.backends.torch.node_memory import NodeMemory, memories

Arrays = dict[str, NDArray]


class Executor:
    """A symbol with the arrays that it computes with.

    Args:
        symbol: The net.
        graph: The same for fixed sizes.
        ctx: Where to compute.
        args: Arrays of the arguments, by name.
        grads: Arrays for gradients, by the argument's name.
        grad_req: ``write``, ``add`` or ``null``, by the argument's name.
        aux: Arrays of the auxiliary states, by name.

    Attributes:
        arg_dict: Arrays of the arguments, by name.
        grad_dict: Their gradients.
        aux_dict: Arrays of the auxiliary states.
        outputs: What the last ``forward`` computed; zeros before the first.
    """

    def __init__(
        self,
        symbol: Symbol,
        graph: Graph,
        ctx: Context,
        *,
        args: Arrays,
        grads: Arrays,
        grad_req: Mapping[str, str],
        aux: Arrays,
    ) -> None:
        self._symbol, self._graph, self._ctx = symbol, graph, ctx
        self.arg_dict, self.grad_dict, self.aux_dict = args, grads, aux
        self._grad_req = dict(grad_req)
        self._net = self._lowered(())
        self._fixed = {name: float(array.flat[0]) for name, array in unread_arrays(graph).items()}
        self._inputs = [value.name or "" for value in graph.inputs]
        self._heads: list[torch.Tensor] = []
        self._leaves: dict[str, torch.Tensor] = {}
        self._monitor: tuple[TorchNet, list[str], Callable[[str, NDArray], None]] | None = None
        # the same objects after each forward, as in MXNet: scripts take them once and look again
        self.outputs = [_blank(known_shape(value), ctx) for value in graph.outputs]

    @property
    def arg_arrays(self) -> list[NDArray]:
        """Arrays of the arguments, in the order of ``list_arguments``."""
        return [self.arg_dict[name] for name in self._symbol.list_arguments()]

    @property
    def grad_arrays(self) -> list[NDArray | None]:
        """Their gradients; None for those without."""
        return [self.grad_dict.get(name) for name in self._symbol.list_arguments()]

    @property
    def aux_arrays(self) -> list[NDArray]:
        """Arrays of the auxiliary states, in the order of ``list_auxiliary_states``."""
        return [self.aux_dict[name] for name in self._symbol.list_auxiliary_states()]

    @property
    def output_dict(self) -> Arrays:
        """The outputs by name."""
        return dict(zip(self._symbol.list_outputs(), self.outputs, strict=True))

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Compute the outputs.

        Args:
            is_train: Whether as in training; ``backward`` may follow then.
            kwargs: Values for arguments, by name.

        Raises:
            UsageError: There is no such argument, or a value has another shape.
            RunError: An operator cannot be computed.
        """
        for name, value in kwargs.items():
            self._copy_to_argument(name, value)
        net, names = self._net, None
        if self._monitor is not None:
            net, names, _ = self._monitor
        if is_train:
            for name, number in self._fixed.items():  # as MXNet's BatchNorm does to a gamma that is fixed
                self._array(name)[:] = number
        values = self._take_inputs(is_train)
        self._follow_memory(net)
        wants_grad = is_train and any(req != "null" for req in self._grad_req.values())
        mode = torch.enable_grad() if wants_grad else torch.no_grad()
        # CustomOp asks for the mode
        with mode, recording.modes(recording=False, training=is_train):
            computed = net.train(is_train).compute(values)
        heads = [value.name or "" for value in self._graph.outputs]
        tensors = [computed[name] for name in heads]
        self._heads = tensors if is_train else []
        # scripts change outputs in place, which must not reach what backward needs
        for own, tensor in zip(self.outputs, tensors, strict=True):
            value = tensor.detach().clone() if wants_grad else tensor.detach()
            own.tensor = value if value.ndim else value.reshape(1)
        if names is not None and self._monitor is not None:
            for name in names:
                self._monitor[2](name, NDArray(computed[name].detach()))
        return self.outputs

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Compute the gradients of the arguments.

        Args:
            out_grads: Gradients of the outputs; ones where none are given, which losses ignore.
            is_train: As MXNet has it.

        Raises:
            UsageError: ``forward(is_train=True)`` has not been called before, or there are more gradients
                than outputs.
        """
        if not self._heads:
            raise UsageError("backward needs a forward(is_train=True) before it")
        given = [out_grads] if isinstance(out_grads, NDArray) else list(out_grads or [])
        if len(given) > len(self._heads):
            raise UsageError(f"backward got {len(given)} gradients, expected at most {len(self._heads)}")
        given += [None] * (len(self._heads) - len(given))
        roots = [(head, grad) for head, grad in zip(self._heads, given, strict=True) if head.requires_grad]
        self._forget_gradients()
        if roots:
            gradients = [
                torch.ones_like(head) if grad is None else grad.tensor.to(head).reshape(head.shape)
                for head, grad in roots
            ]
            torch.autograd.backward([head for head, _ in roots], gradients)
        self._heads = []
        self._deliver_gradients()

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays by name.

        Raises:
            UsageError: There is no such argument or auxiliary state, unless extra ones are allowed.
        """
        for arrays, own in ((arg_params, self.arg_dict), (aux_params or {}, self.aux_dict)):
            for name, array in arrays.items():
                if name in own:
                    own[name][:] = array
                elif not allow_extra_params:
                    raise UsageError(f"the net has no array {name!r}; it has: {', '.join(own)}")

    def reshape(
        self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any
    ) -> Executor:
        """Return an executor for other sizes of inputs that shares the other arrays."""
        graph = sized(self._symbol, kwargs)
        shapes = shapes_of(graph)
        args, grads = dict(self.arg_dict), dict(self.grad_dict)
        for name in args:
            if args[name].shape != shapes[name]:
                args[name] = new_array(shapes[name], args[name].tensor.dtype, self._ctx)
                if name in grads:
                    grads[name] = new_array(shapes[name], args[name].tensor.dtype, self._ctx)
        return Executor(
            self._symbol, graph, self._ctx, args=args, grads=grads, grad_req=self._grad_req, aux=self.aux_dict
        )

    def set_monitor_callback(
        self, callback: Callable[[str, NDArray], None], monitor_all: bool = False
    ) -> None:
        """Have a function called with the name and the value of every output of every operator."""
        known = {value.name for node in self._graph.nodes for value in node.outputs}
        names = [name for name in self._symbol.get_internals().list_outputs() if name in known]
        net = self._lowered(names)
        _share_memories(self._net, net)
        self._monitor = (net, names, callback)

    def memories(self) -> dict[str, NodeMemory]:
        """Return what operators keep from call to call, by the name of the node."""
        return memories(self._net.module)

    def share_memories(self, other: Executor) -> None:
        """Let operators keep what those of the same name keep in another executor."""
        _share_memories(other._net, self._net)

    def debug_str(self) -> str:
        """Return the nodes in their order."""
        return "\n".join(str(node.name) for node in self._graph.nodes)

    # The net and its memory.

    def _lowered(self, taps: Sequence[str]) -> TorchNet:
        store = ParameterStore()
        for name, parameter in self._graph.parameters.items():
            store.adopt(parameter, self._array(name).tensor)
        net = TorchNet(self._graph, taps=taps, store=store).to(self._ctx.torch_device)
        # constants, such as a gamma that is fixed, have 32 bits
        return net.to(torch.float64) if _is_double(self.arg_dict) else net

    def _array(self, name: str) -> NDArray:
        return self.arg_dict[name] if name in self.arg_dict else self.aux_dict[name]

    def _follow_memory(self, net: TorchNet) -> None:
        """Let the net compute with the arrays as they are now, and with the gradients that are wanted."""
        for name in net.store:
            leaf, array = net.store[name].tensor, self._array(name).tensor
            if leaf.data_ptr() != array.data_ptr():
                leaf.data = array.detach()
            wanted = self._grad_req.get(name, "null") != "null" and leaf.is_floating_point()
            leaf.requires_grad_(wanted)
            self._leaves[name] = leaf

    def _take_inputs(self, is_train: bool) -> dict[str, torch.Tensor]:
        values = {}
        for name in self._inputs:
            tensor = self.arg_dict[name].tensor.detach()
            if is_train and self._grad_req.get(name, "null") != "null" and tensor.is_floating_point():
                tensor = tensor.view_as(tensor).requires_grad_()
                self._leaves[name] = tensor
            values[name] = tensor
        return values

    def _copy_to_argument(self, name: str, value: Any) -> None:
        if name not in self.arg_dict:
            raise UsageError(f"the net has no argument {name!r}; it has: {', '.join(self.arg_dict)}")
        own = self.arg_dict[name]
        if tuple(value.shape) != own.shape:
            raise UsageError(f"argument {name!r} has the shape {own.shape}, and the value {value.shape}")
        own[:] = value

    def _forget_gradients(self) -> None:
        for leaf in self._leaves.values():
            leaf.grad = None

    def _deliver_gradients(self) -> None:
        with torch.no_grad():
            for name, target in self.grad_dict.items():
                req = self._grad_req.get(name, "null")
                leaf = self._leaves.get(name)
                gradient = None if leaf is None else leaf.grad
                if req == "add" and gradient is not None:
                    target.tensor.add_(gradient)
                elif req == "write" and gradient is not None:
                    target.tensor.copy_(gradient)
                elif req == "write":
                    target.tensor.zero_()
        self._forget_gradients()


def _share_memories(source: TorchNet, target: TorchNet) -> None:
    for name, memory in memories(source.module).items():
        if hasattr(target.module, name):
            setattr(target.module, name, memory)


def new_array(shape: Sequence[int], dtype: torch.dtype, ctx: Context) -> NDArray:
    """Return zeros; filters lie in memory as the net reads them."""
    tensor = torch.zeros(tuple(shape), dtype=dtype, device=ctx.torch_device)
    if tensor.ndim == 4:
        tensor = tensor.contiguous(memory_format=torch.channels_last)
    return NDArray(tensor)


def _blank(shape: Sequence[int | None] | None, ctx: Context) -> NDArray:
    """Return zeros in the place of an output that was not computed yet; none where a size is open."""
    return NDArray(torch.zeros([size or 0 for size in shape or (0,)], device=ctx.torch_device))


def require_one_device(symbol: Symbol, ctx: Context, group2ctx: Mapping[str, Any] | None) -> None:
    """Refuse groups of layers on another device than the rest of the net.

    Contexts of one device are one memory, as in MXNet: groups on ``cpu(0)`` and ``cpu(1)`` are where they
    should be. A group that the symbol lacks, or that has no context, says nothing.

    Args:
        symbol: The net, whose nodes have groups as ``AttrScope(ctx_group=...)`` gave them.
        ctx: The device of the net.
        group2ctx: The context of each group.

    Raises:
        UsageError: A group is on another device.
    """
    members: dict[str, list[str]] = {}
    for name, attributes in symbol.attr_dict().items() if group2ctx else ():
        if "__ctx_group__" in attributes:
            members.setdefault(attributes["__ctx_group__"], []).append(name)
    for group, place in (group2ctx or {}).items():
        if group in members and Context(place).device.torch_name != ctx.device.torch_name:
            shown = ", ".join(members[group][:3]) + (", ..." if len(members[group]) > 3 else "")
            raise UsageError(
                f"group2ctx puts group {group!r} ({shown}) on {place}, and the net is on {ctx}; a net of "
                f"netweave.mxnet is on one device; leave {group!r} out of group2ctx, which changes no "
                "number, or give several contexts, each of which computes a part of the batch"
            )


def requests(names: Sequence[str], grad_req: Any) -> dict[str, str]:
    """Return what happens to each argument's gradient, from one word, a list, or words by name.

    Raises:
        UsageError: A word is none of write, add, null.
    """
    if isinstance(grad_req, str):
        reqs = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, list | tuple):
        reqs = dict(zip(names, grad_req, strict=True))
    else:
        reqs = {name: grad_req.get(name, "null") for name in names}
    for name, req in reqs.items():
        if req not in recording.GRAD_REQS:
            raise UsageError(
                f"grad_req of {name!r} is {req!r}, expected one of {', '.join(recording.GRAD_REQS)}"
            )
    return reqs


def simple_bind(
    symbol: Symbol,
    ctx: Context | None = None,
    *,
    grad_req: Any = "write",
    type_dict: Mapping[str, Any] | None = None,
    shared_exec: Executor | None = None,
    group2ctx: Any = None,
    stype_dict: Any = None,
    shared_arg_names: Any = None,
    shared_buffer: Any = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    **kwargs: Sequence[int],
) -> Executor:
    """Return an executor with arrays of its own for sizes of inputs.

    Args:
        symbol: The net.
        ctx: Where to compute.
        grad_req: ``write``, ``add`` or ``null``: one for all, a list, or by name.
        type_dict: Element types by name.
        shared_exec: Whose arrays of the same name and sizes are used.
        group2ctx: Contexts of groups of layers (``AttrScope(ctx_group=...)``), all on the device of ``ctx``.
        stype_dict: As MXNet has it; arrays are dense here.
        shared_arg_names: As MXNet has it.
        shared_buffer: As MXNet has it.
        shapes: Sizes of inputs by name.
        kwargs: The same as keywords.

    Raises:
        SourceError: Sizes do not fit, or are not known.
        UsageError: There is no variable of some name, or a group is on another device.
    """
    place = as_contexts(ctx)[0]
    require_one_device(symbol, place, group2ctx)
    graph = sized(symbol, {**(shapes or {}), **kwargs})
    sizes = shapes_of(graph)
    names, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    shared = {} if shared_exec is None else {**shared_exec.arg_dict, **shared_exec.aux_dict}
    types = _types(graph, type_dict or {})

    def take(name: str) -> NDArray:
        known = shared.get(name)
        if known is not None and known.shape == sizes[name]:
            return known
        return new_array(sizes[name], types.get(name, torch.float32), place)

    args = {name: take(name) for name in names}
    reqs = requests(names, grad_req)
    grads = {
        name: new_array(sizes[name], args[name].tensor.dtype, place) for name in names if reqs[name] != "null"
    }
    if _is_double(args):  # BatchNorm's statistics have the type of its data, or 32 bits for one of 16
        types |= dict.fromkeys(states, torch.float64)
    aux = {name: take(name) for name in states}
    for name in states:
        if name.endswith("var") and name not in shared:
            aux[name][:] = 1
    return Executor(symbol, graph, place, args=args, grads=grads, grad_req=reqs, aux=aux)


def _is_double(arrays: Arrays) -> bool:
    """Return whether a net computes in 64 bits."""
    floating = [one.tensor.dtype for one in arrays.values() if one.tensor.is_floating_point()]
    return bool(floating) and all(dtype == torch.float64 for dtype in floating)


def _types(graph: Graph, type_dict: Mapping[str, Any]) -> dict[str, torch.dtype]:
    declared = {
        value.name or "": torch_type(value.dtype.numpy().name)
        for value in graph.inputs
        if value.dtype is not None
    }
    given = {name: torch_type(DTYPES.get(str(kind), kind)) for name, kind in type_dict.items()}
    return declared | given


def bind(
    symbol: Symbol,
    ctx: Context | None,
    args: Any,
    *,
    args_grad: Any = None,
    grad_req: Any = "write",
    aux_states: Any = None,
    group2ctx: Any = None,
    shared_exec: Executor | None = None,
) -> Executor:
    """Return an executor on arrays of the caller's.

    Args:
        symbol: The net.
        ctx: Where to compute.
        args: Arrays of the arguments, in order or by name.
        args_grad: Arrays for their gradients, likewise; none for some or all.
        grad_req: ``write``, ``add`` or ``null``: one for all, a list, or by name.
        aux_states: Arrays of the auxiliary states, in order or by name.
        group2ctx: Contexts of groups of layers (``AttrScope(ctx_group=...)``), all on the device of ``ctx``.
        shared_exec: As MXNet has it: memory is shared by sharing arrays.

    Raises:
        UsageError: An array is missing, or a group is on another device.
        SourceError: Sizes do not fit.
    """
    require_one_device(symbol, as_contexts(ctx)[0], group2ctx)
    names, states = symbol.list_arguments(), symbol.list_auxiliary_states()
    own = _by_name(names, args, "argument")
    aux = _by_name(states, aux_states or {}, "auxiliary state", optional=aux_states is None)
    place = as_contexts(ctx)[0]
    learnt = _learnt(symbol)
    graph = sized(symbol, {name: array.shape for name, array in own.items() if name not in learnt})
    _check_sizes(graph, own)
    grads = {} if args_grad is None else _by_name(names, args_grad, "gradient", optional=True)
    reqs = requests(names, grad_req)
    reqs = {name: req if name in grads else "null" for name, req in reqs.items()}
    sizes = shapes_of(graph)
    for name in states:
        if name not in aux:
            aux[name] = new_array(sizes[name], torch.float32, place)
            aux[name][:] = 1 if name.endswith("var") else 0
    return Executor(symbol, graph, place, args=own, grads=grads, grad_req=reqs, aux=aux)


def _by_name(names: Sequence[str], arrays: Any, what: str, *, optional: bool = False) -> Arrays:
    if not isinstance(arrays, dict):
        arrays = dict(zip(names, arrays, strict=False))
    given = {name: arrays[name] for name in names if arrays.get(name) is not None}
    missing = [name for name in names if name not in given]
    if missing and not optional:
        raise UsageError(f"there is no array for the {what} {missing[0]!r}; the net has: {', '.join(names)}")
    return given


def _learnt(symbol: Symbol) -> set[str]:
    """Return the variables that an operator reads as arrays that it learns: the net says their sizes."""
    learnt: set[str] = set()
    for vertex in sorted_vertices(symbol.outputs):
        arguments = vertex.argument_names() if not vertex.is_variable else None
        pairs = zip(arguments or (), vertex.inputs, strict=False)
        learnt |= {entry.vertex.name for argument, entry in pairs if argument in ROLES}
    return learnt


def _check_sizes(graph: Graph, arrays: Arrays) -> None:
    for name, parameter in graph.parameters.items():
        if name in arrays and arrays[name].shape != parameter.shape:
            raise ShapeError(
                f"the array of {name!r} has the shape {arrays[name].shape}, expected {parameter.shape}"
            )


CASTS = frozenset({"Cast", "cast", "amp_cast"})
"""Operators that change the type of an array and keep its sizes."""


def sized(symbol: Symbol, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """Return the Graph of a symbol for fixed sizes.

    Raises:
        SourceError: Sizes do not fit, or are not known.
        UsageError: There is no variable of some name.
    """
    known = symbol.list_inputs()
    unknown = [name for name in shapes if name not in known]
    if unknown:
        raise UsageError(f"the net has no argument {unknown[0]!r}; it has: {', '.join(known)}")
    given = {name: tuple(shape) for name, shape in shapes.items()}
    try:
        return _built(symbol, given)
    except ShapeError as error:
        behind_casts = _sizes_behind_casts(symbol, given) if error.open_inputs else {}
        if not behind_casts:
            raise
    return _built(symbol, behind_casts | given)


def _built(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    return build(symbol.document(), name=symbol.name or "net", input_shapes=shapes, open_batch=False)


def _sizes_behind_casts(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of variables that layers read through a Cast, as nets in 16 bits do with weights."""
    casts = {
        Output(vertex): vertex.inputs[0]
        for vertex in sorted_vertices(symbol.outputs)
        if vertex.op in CASTS and vertex.inputs[0].vertex.is_variable
    }
    names = {entry.vertex.name for entry in casts.values()} - shapes.keys()
    if not names:
        return {}
    sizes = shapes_of(_built(type(symbol)(cut(symbol.outputs, casts)), shapes))
    return {name: sizes[name] for name in names}


def shapes_of(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the sizes of all variables by name."""
    sizes = {name: parameter.shape for name, parameter in graph.parameters.items()}
    for value in graph.inputs:
        shape = known_shape(value)
        if shape is None or None in shape:
            raise ShapeError(f"the sizes of the input {value.name!r} are unknown; give them when binding")
        sizes[value.name or ""] = tuple(size for size in shape if size is not None)
    return sizes


__all__ = ["Executor", "bind", "new_array", "requests", "shapes_of", "simple_bind", "sized"]
