"""Blocks: nets as objects that are called with arrays, or with symbols."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet import checkpoint
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym
from netweave.mxnet.executor import shapes_of, sized
from netweave.mxnet.gluon.parameter import (
    DeferredInitializationError,
    Parameter,
    ParameterDict,
    load_into,
)
from netweave.mxnet.ndarray.array import NDArray


class _Scope:
    """A scope that names blocks; names of children begin with that of their parent."""

    current: ClassVar[_Scope | None] = None
    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.own: Counter[str] = Counter()

    @classmethod
    def prefix_for(cls, prefix: str | None, hint: str) -> str:
        parent = cls.current
        if prefix is None:
            counts = cls.counts if parent is None else parent.own
            prefix = f"{hint}{counts[hint]}_"
            counts[hint] += 1
        return prefix if parent is None else parent.prefix + prefix


class Block:
    """A net: a subclass has ``forward``, and blocks and parameters as attributes.

    Args:
        prefix: What the names of its parameters begin with.
        params: Parameters of another block to share.
    """

    alias: ClassVar[str] = ""
    """What names of such blocks begin with; the class's name by default."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        self._children: OrderedDict[str, Block] = OrderedDict()
        self._reg_params: dict[str, Parameter] = {}
        self._prefix = _Scope.prefix_for(prefix, self.alias or type(self).__name__.lower())
        self._is_unnamed = prefix == ""
        shared = params
        self._params = ParameterDict(params.prefix if params is not None else self._prefix, shared)
        self._scope = _Scope(self._prefix)
        self._hooks: list[Any] = []

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            self._reg_params[name] = value
            self._params._params.setdefault(value.name, value)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        lines = [f"  ({name}): {child!r}".replace("\n", "\n  ") for name, child in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)" if lines else f"{type(self).__name__}()"

    @property
    def prefix(self) -> str:
        """Prefix of the names of its parameters."""
        return self._prefix

    @property
    def name(self) -> str:
        """Its name."""
        return self._prefix.removesuffix("_")

    @property
    def params(self) -> ParameterDict:
        """Its own parameters, without those of its children."""
        return self._params

    @contextmanager
    def name_scope(self) -> Iterator[None]:
        """Let names of blocks made in a ``with`` block begin with that of this one."""
        # as in Gluon, a block without a prefix of its own counts its children with those around it
        before, _Scope.current = _Scope.current, _Scope.current if self._is_unnamed else self._scope
        try:
            yield
        finally:
            _Scope.current = before

    def register_child(self, block: Block, name: str | None = None) -> None:
        """Add a block as a child."""
        self._children[str(len(self._children)) if name is None else name] = block

    def collect_params(self, select: str | None = None) -> ParameterDict:
        """Return all parameters, of children too; those that match a regular expression if there is one."""
        params = ParameterDict(self._params.prefix)
        params.update(self._params)
        for child in self._children.values():
            params.update(child.collect_params())
        return params if select is None else params.select(select)

    def _by_structure(self, prefix: str = "") -> dict[str, Parameter]:
        params = {prefix + name: one for name, one in self._reg_params.items()}
        for name, child in self._children.items():
            params |= child._by_structure(f"{prefix}{name}.")
        return params

    def initialize(
        self,
        init: Any = None,
        ctx: Any = None,
        verbose: bool = False,
        force_reinit: bool = False,
    ) -> None:
        """Give all parameters their first values."""
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def save_parameters(self, filename: str, deduplicate: bool = False) -> None:
        """Write all parameters to a ``.params`` file, which Gluon reads."""
        nd.save(filename, {name: one.data() for name, one in self._by_structure().items()})

    def load_parameters(
        self,
        filename: str,
        ctx: Any = None,
        allow_missing: bool = False,
        ignore_extra: bool = False,
        cast_dtype: bool = False,
        dtype_source: str = "current",
    ) -> None:
        """Take the parameters of a ``.params`` file.

        Raises:
            ReadError: The file cannot be read, or is none.
            UsageError: An array is missing, or there is one too many.
        """
        arrays = nd.load(filename)
        own = self._by_structure()
        if not any("." in name for name in arrays) and not set(arrays) <= set(own):
            own = dict(self.collect_params().items())
            arrays = {name.removeprefix("arg:").removeprefix("aux:"): one for name, one in arrays.items()}
        load_into(own, arrays, ctx, allow_missing=allow_missing, ignore_extra=ignore_extra)

    def save_params(self, filename: str) -> None:
        """Write all parameters by their names."""
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename: str, ctx: Any = None, **kwargs: Any) -> None:
        """Take the parameters of a file by their names."""
        self.collect_params().load(filename, ctx, restore_prefix=self.prefix, **kwargs)

    def apply(self, fn: Any) -> Block:
        """Call a function with every child, and with this block."""
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    def cast(self, dtype: Any) -> None:
        """Change the element type of all parameters."""
        for one in self.collect_params().values():
            one.cast(dtype)

    def hybridize(self, active: bool = True, **kwargs: Any) -> None:
        """Make no difference: operators are looked up once for each size, and then kept."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def register_forward_hook(self, hook: Any) -> None:
        """Have a function called with (block, inputs, outputs) after each ``forward``."""
        self._hooks.append(hook)

    def __call__(self, *args: Any) -> Any:
        """Return what ``forward`` computes."""
        outputs = self.forward(*args)
        for hook in self._hooks:
            hook(self, args, outputs)
        return outputs

    def forward(self, *args: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError

    def summary(self, *inputs: NDArray) -> None:
        """Print the blocks."""
        print(self)  # noqa: T201 - what the method is for


class HybridBlock(Block):
    """A block for arrays and symbols: a subclass has ``hybrid_forward(F, x, ..., **parameters)``."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs with the operators of ``F``, which is ``mx.nd`` or ``mx.sym``."""
        raise NotImplementedError

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs; the first arrays say the sizes of parameters that are not known."""
        if isinstance(x, Symbol):
            return self.hybrid_forward(sym, x, *args, **{k: one.var() for k, one in self._reg_params.items()})
        if not isinstance(x, NDArray):
            raise UsageError(f"{self.name}: the input is {type(x).__name__}, expected an array or a symbol")
        try:
            params = {name: one.data(x.context) for name, one in self._reg_params.items()}
        except DeferredInitializationError:
            self.infer_shape(x, *args)
            params = {name: one.data(x.context) for name, one in self._reg_params.items()}
        return self.hybrid_forward(nd, x, *args, **params)

    def infer_shape(self, *args: Any) -> None:
        """Find the sizes of its own parameters from arrays; the operators' shape rules say them."""
        arrays = [one for one in _flat(args) if isinstance(one, NDArray)]
        names = iter(range(len(arrays)))
        inputs = _mapped(
            args, lambda one: sym.Variable(f"input{next(names)}") if isinstance(one, NDArray) else one
        )
        params = {name: one.var() for name, one in self._reg_params.items()}
        outputs = self.hybrid_forward(sym, *inputs, **params)
        whole = sym.Group(list(_flat([outputs])))
        shapes = {f"input{number}": one.shape for number, one in enumerate(arrays)}
        known = whole.list_inputs()
        sizes = shapes_of(sized(whole, {name: shape for name, shape in shapes.items() if name in known}))
        for one in self._reg_params.values():
            if one.name in sizes and not one.is_known:
                one.shape, one._var = sizes[one.name], None
            one.finish()

    def export(self, path: str, epoch: int = 0, remove_amp_cast: bool = True) -> None:
        """Write the net as a checkpoint: ``PATH-symbol.json`` and ``PATH-0000.params``."""
        net = self(sym.Variable("data"))
        params = {one.name: one.data() for one in self.collect_params().values()}
        states = net.list_auxiliary_states()
        args = {name: one for name, one in params.items() if name not in states}
        checkpoint.save_checkpoint(path, epoch, net, args, {name: params[name] for name in states})


class SymbolBlock(HybridBlock):
    """A symbol as a block.

    Args:
        outputs: The symbol, or several.
        inputs: Its inputs, as variables.
        params: Parameters of another block, which are used where the name is the same.
    """

    def __init__(self, outputs: Any, inputs: Any, params: Any = None) -> None:
        super().__init__(prefix="", params=None)
        self._params = ParameterDict(shared=params)
        self._net = sym.Group(list(outputs)) if isinstance(outputs, list | tuple) else outputs
        self._inputs = [one.name for one in (inputs if isinstance(inputs, list | tuple) else [inputs])]
        states = self._net.list_auxiliary_states()
        for name in self._net.list_inputs():
            if name not in self._inputs:
                req = "null" if name in states else "write"
                made = self._params.get(name, grad_req=req, allow_deferred_init=True)
                self._reg_params[name] = made

    @staticmethod
    def imports(
        symbol_file: str, input_names: Any, param_file: str | None = None, ctx: Any = None
    ) -> SymbolBlock:
        """Return the block of a checkpoint."""
        names = [input_names] if isinstance(input_names, str) else list(input_names)
        made = SymbolBlock(sym.load(symbol_file), [sym.Variable(name) for name in names])
        if param_file is not None:
            made.collect_params().load(param_file, ctx)
        return made

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs: operator by operator on arrays, or the symbol on symbols."""
        given = dict(zip(self._inputs, (x, *args), strict=True))
        if isinstance(x, Symbol):
            return self._net(**given)
        try:
            params = {name: one.data(x.context) for name, one in self._reg_params.items()}
        except DeferredInitializationError:
            sizes = shapes_of(sized(self._net, {name: one.shape for name, one in given.items()}))
            for name, one in self._reg_params.items():
                one.shape = sizes[name]
                one.finish()
            params = {name: one.data(x.context) for name, one in self._reg_params.items()}
        outputs = evaluate(self._net, {**given, **params})
        return outputs[0] if len(outputs) == 1 else outputs


def evaluate(net: Symbol, values: dict[str, NDArray]) -> list[NDArray]:
    """Return the outputs of a symbol for arrays, operator by operator, so that autograd records them."""
    outputs: dict[Any, list[NDArray]] = {}
    for vertex in _order(net):
        if vertex.is_variable:
            outputs[vertex] = [values[vertex.name]] if vertex.name in values else []
            continue
        inputs = [outputs[entry.vertex][entry.number] for entry in vertex.inputs if outputs[entry.vertex]]
        settings = {key: text for key, text in vertex.attributes.items() if not key.startswith("__")}
        made = NDArray.operator_function(vertex.op)(*inputs, **settings)
        outputs[vertex] = made if isinstance(made, list) else [made]
    return [outputs[output.vertex][output.number] for output in net.outputs]


def _order(net: Symbol) -> Any:
    from netweave.formats.mxnet.symbol.vertex import sorted_vertices

    return sorted_vertices(net.outputs)


def _flat(values: Any) -> Iterator[Any]:
    for one in values:
        if isinstance(one, list | tuple):
            yield from _flat(one)
        else:
            yield one


def _mapped(values: Any, function: Any) -> Any:
    return [_mapped(one, function) if isinstance(one, list | tuple) else function(one) for one in values]
