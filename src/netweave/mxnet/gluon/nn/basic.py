"""Layers that are no convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from netweave.formats.mxnet.symbol import Symbol
from netweave.mxnet import ndarray as nd
from netweave.mxnet import symbol as sym
from netweave.mxnet.gluon.block import Block, HybridBlock


class _Row(Block):
    """Blocks one behind the other."""

    def add(self, *blocks: Block) -> None:
        """Add blocks at the end."""
        for one in blocks:
            self.register_child(one)

    def __len__(self) -> int:
        return len(self._children)

    def __iter__(self) -> Iterator[Block]:
        return iter(self._children.values())

    def __getitem__(self, key: Any) -> Any:
        chosen = list(self._children.values())[key]
        if not isinstance(chosen, list):
            return chosen
        made = type(self)(prefix=self._prefix)
        made.add(*chosen)
        return made

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs, block by block."""
        for child in self._children.values():
            x = child(x, *args)
            args = ()
            if isinstance(x, tuple):
                x, args = x[0], x[1:]
        return (x, *args) if args else x


class Sequential(_Row):
    """Blocks one behind the other."""


class HybridSequential(_Row, HybridBlock):
    """Blocks one behind the other, for arrays and symbols."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs, block by block."""
        return self.forward(x, *args)


class Dense(HybridBlock):
    """y = f(x W' + b).

    Args:
        units: Size of the output.
        activation: f, by name.
        use_bias: Whether there is b.
        flatten: Whether all axes but the first are taken together.
        dtype: Element type.
        weight_initializer: For W.
        bias_initializer: For b.
        in_units: Size of the input; 0 for that of the first input.
        kwargs: As for all blocks.
    """

    def __init__(
        self,
        units: int,
        activation: str | None = None,
        use_bias: bool = True,
        flatten: bool = True,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_units: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._units, self._flatten, self._act = units, flatten, activation
        late = {"allow_deferred_init": True, "dtype": dtype}
        self.weight = self.params.get("weight", shape=(units, in_units), init=weight_initializer, **late)
        if use_bias:
            self.bias = self.params.get("bias", shape=(units,), init=bias_initializer, **late)

    def hybrid_forward(self, F: Any, x: Any, weight: Any = None, bias: Any = None) -> Any:
        """Compute the outputs."""
        given = [one for one in (x, weight, bias) if one is not None]
        output = F.FullyConnected(
            *given,
            num_hidden=self._units,
            no_bias=bias is None,
            flatten=self._flatten,
            **_name(F, self, "fwd"),
        )
        return output if self._act is None else F.Activation(output, act_type=self._act)


def _name(F: Any, block: Block, end: str) -> dict[str, str]:
    return {"name": block.prefix + end} if F is sym else {}


class Dropout(HybridBlock):
    """Drops elements at random.

    Args:
        rate: Share of elements.
        axes: Axes along which all elements go together.
        kwargs: As for all blocks.
    """

    def __init__(self, rate: float, axes: Any = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._rate, self._axes = rate, axes

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        if self._rate <= 0:
            return F.identity(x)
        return F.Dropout(x, p=self._rate, **({"axes": self._axes} if self._axes else {}))


class Activation(HybridBlock):
    """f(x).

    Args:
        activation: f, by name.
        kwargs: As for all blocks.
    """

    def __init__(self, activation: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._act = activation

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.Activation(x, act_type=self._act, **_name(F, self, "fwd"))


class LeakyReLU(HybridBlock):
    """x, or alpha x below 0."""

    def __init__(self, alpha: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.LeakyReLU(x, act_type="leaky", slope=self._alpha)


class PReLU(HybridBlock):
    """x, or a learnt factor of x below 0."""

    def __init__(self, alpha_initializer: Any = None, in_channels: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        from netweave.mxnet.initializer import Constant

        rule = Constant(0.25) if alpha_initializer is None else alpha_initializer
        self.alpha = self.params.get("alpha", shape=(in_channels,), init=rule)

    def hybrid_forward(self, F: Any, x: Any, alpha: Any = None) -> Any:
        """Compute the outputs."""
        return F.LeakyReLU(x, alpha, act_type="prelu")


class ELU(HybridBlock):
    """x, or alpha (e^x - 1) below 0."""

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._alpha = alpha

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.LeakyReLU(x, act_type="elu", slope=self._alpha)


class SELU(HybridBlock):
    """ELU scaled so that it normalises."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.LeakyReLU(x, act_type="selu")


class GELU(HybridBlock):
    """x times the share of normal numbers below it."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.LeakyReLU(x, act_type="gelu")


class Swish(HybridBlock):
    """x sigmoid(beta x)."""

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._beta = beta

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return x * F.sigmoid(self._beta * x)


class Flatten(HybridBlock):
    """All axes but the first taken together."""

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.Flatten(x)


class Embedding(HybridBlock):
    """Rows of a table by number.

    Args:
        input_dim: Rows.
        output_dim: Size of a row.
        dtype: Element type.
        weight_initializer: For the table.
        sparse_grad: As MXNet has it.
        kwargs: As for all blocks.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        dtype: Any = "float32",
        weight_initializer: Any = None,
        sparse_grad: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._sizes = {"input_dim": input_dim, "output_dim": output_dim}
        shape = (input_dim, output_dim)
        self.weight = self.params.get("weight", shape=shape, init=weight_initializer, dtype=dtype)

    def hybrid_forward(self, F: Any, x: Any, weight: Any = None) -> Any:
        """Compute the outputs."""
        return F.Embedding(x, weight, **self._sizes)


class BatchNorm(HybridBlock):
    """Normalises each channel by the batch, and by moving statistics in tests.

    Args:
        axis: Axis of the channels.
        momentum: Of the moving statistics.
        epsilon: Added to the variance.
        center: Whether there is a shift.
        scale: Whether there is a factor.
        use_global_stats: Whether the moving statistics count in training, too.
        beta_initializer: For the shift.
        gamma_initializer: For the factor.
        running_mean_initializer: For the moving mean.
        running_variance_initializer: For the moving variance.
        in_channels: Channels; 0 for those of the first input.
        kwargs: As for all blocks.
    """

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._settings = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        late = {"shape": (in_channels,), "allow_deferred_init": True}
        get = self.params.get
        self.gamma = get("gamma", grad_req="write" if scale else "null", init=gamma_initializer, **late)
        self.beta = get("beta", grad_req="write" if center else "null", init=beta_initializer, **late)
        self.running_mean = get("running_mean", grad_req="null", init=running_mean_initializer, **late)
        self.running_var = get("running_var", grad_req="null", init=running_variance_initializer, **late)

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        gamma: Any = None,
        beta: Any = None,
        running_mean: Any = None,
        running_var: Any = None,
    ) -> Any:
        """Compute the outputs."""
        name = _name(F, self, "fwd")
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, **name, **self._settings)


class _Scaled(HybridBlock):
    """A normalisation with a factor and a shift."""

    op = ""
    setting = "eps"

    def __init__(
        self,
        axis: int | None = None,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix, params)
        self._settings = {"eps": epsilon} | ({} if axis is None else {"axis": axis})
        late = {"shape": (in_channels,), "allow_deferred_init": True}
        get = self.params.get
        self.gamma = get("gamma", grad_req="write" if scale else "null", init=gamma_initializer, **late)
        self.beta = get("beta", grad_req="write" if center else "null", init=beta_initializer, **late)

    def hybrid_forward(self, F: Any, x: Any, gamma: Any = None, beta: Any = None) -> Any:
        """Compute the outputs."""
        return getattr(F, self.op)(x, gamma, beta, **self._settings)


class LayerNorm(_Scaled):
    """Normalises over one axis, the last by default."""

    op = "LayerNorm"


class InstanceNorm(_Scaled):
    """Normalises each channel of each element of the batch by itself."""

    op = "InstanceNorm"


class Lambda(Block):
    """A function on arrays, or the name of an operator.

    Args:
        function: The function.
        prefix: What its name begins with.
    """

    def __init__(self, function: Any, prefix: str | None = None) -> None:
        super().__init__(prefix)
        self._function = getattr(nd, function) if isinstance(function, str) else function

    def forward(self, *args: Any) -> Any:
        """Compute the outputs."""
        return self._function(*args)


class HybridLambda(HybridBlock):
    """A function of ``(F, x, ...)``, or the name of an operator.

    Args:
        function: The function.
        prefix: What its name begins with.
    """

    def __init__(self, function: Any, prefix: str | None = None) -> None:
        super().__init__(prefix)
        self._function = function

    def forward(self, x: Any, *args: Any) -> Any:
        """Compute the outputs."""
        F = sym if isinstance(x, Symbol) else nd
        if isinstance(self._function, str):
            return getattr(F, self._function)(x, *args)
        return self._function(F, x, *args)
