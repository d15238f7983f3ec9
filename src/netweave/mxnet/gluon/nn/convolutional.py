"""Convolutions and pooling as blocks: one class for all ranks, one name for each."""

from __future__ import annotations

from typing import Any, ClassVar

from netweave.mxnet import symbol as sym
from netweave.mxnet.gluon.block import HybridBlock


def _sizes(value: Any, rank: int) -> tuple[int, ...]:
    return (int(value),) * rank if isinstance(value, int) else tuple(value)


class _Convolution(HybridBlock):
    """A convolution.

    Args:
        channels: Channels of the output.
        kernel_size: Sizes of the window.
        strides: Steps of the window.
        padding: Zeros on both sides.
        dilation: Steps inside the window.
        groups: Groups of channels.
        layout: Axes; the channels come second.
        activation: A function for the output, by name.
        use_bias: Whether there is a bias.
        weight_initializer: For the weights.
        bias_initializer: For the bias.
        in_channels: Channels of the input; 0 for those of the first input.
        output_padding: Of a transposed convolution: more elements at the end.
        kwargs: As for all blocks.
    """

    alias = "conv"
    rank: ClassVar[int] = 2
    op: ClassVar[str] = "Convolution"

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        rank, kernel = self.rank, _sizes(kernel_size, self.rank)
        self._settings: dict[str, Any] = {
            "kernel": kernel,
            "stride": _sizes(strides, rank),
            "dilate": _sizes(dilation, rank),
            "pad": _sizes(padding, rank),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
        }
        shape = (channels, in_channels // groups, *kernel)
        if self.op == "Deconvolution":
            self._settings["adj"] = _sizes(output_padding, rank)
            shape = (in_channels, channels // groups, *kernel)
        self._act = activation
        late: dict[str, Any] = {"allow_deferred_init": True}
        self.weight = self.params.get("weight", shape=shape, init=weight_initializer, **late)
        if use_bias:
            self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer, **late)

    def hybrid_forward(self, F: Any, x: Any, weight: Any = None, bias: Any = None) -> Any:
        """Compute the outputs."""
        name = {"name": f"{self.prefix}fwd"} if F is sym else {}
        given = [one for one in (x, weight, bias) if one is not None]
        output = getattr(F, self.op)(*given, **name, **self._settings)
        return output if self._act is None else F.Activation(output, act_type=self._act)


class Conv1D(_Convolution):
    """A convolution over one axis."""

    rank = 1

    def __init__(
        self, channels: int, kernel_size: Any, strides: Any = 1, padding: Any = 0, *args: Any, **kw: Any
    ) -> None:
        super().__init__(channels, kernel_size, strides, padding, 0, *args, **kw)


class Conv2D(_Convolution):
    """A convolution over two axes."""

    def __init__(
        self, channels: int, kernel_size: Any, strides: Any = 1, padding: Any = 0, *args: Any, **kw: Any
    ) -> None:
        super().__init__(channels, kernel_size, strides, padding, 0, *args, **kw)


class Conv3D(_Convolution):
    """A convolution over three axes."""

    rank = 3

    def __init__(
        self, channels: int, kernel_size: Any, strides: Any = 1, padding: Any = 0, *args: Any, **kw: Any
    ) -> None:
        super().__init__(channels, kernel_size, strides, padding, 0, *args, **kw)


class Conv1DTranspose(_Convolution):
    """A transposed convolution over one axis."""

    rank, op = 1, "Deconvolution"


class Conv2DTranspose(_Convolution):
    """A transposed convolution over two axes."""

    op = "Deconvolution"


class Conv3DTranspose(_Convolution):
    """A transposed convolution over three axes."""

    rank, op = 3, "Deconvolution"


class _Pooling(HybridBlock):
    """A pooling.

    Args:
        pool_size: Sizes of the window.
        strides: Its steps; its sizes if None.
        padding: Elements on both sides.
        layout: Axes; the channels come second.
        ceil_mode: Whether a last, overhanging window is kept.
        count_include_pad: Whether an average counts padding.
        kwargs: As for all blocks.
    """

    alias = "pool"
    rank: ClassVar[int] = 2
    kind: ClassVar[str] = "max"
    is_global: ClassVar[bool] = False

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._settings: dict[str, Any] = {
            "kernel": (1,) * self.rank if self.is_global else _sizes(pool_size, self.rank),
            "global_pool": self.is_global,
            "pool_type": self.kind,
        }
        if not self.is_global:
            self._settings |= {
                "stride": _sizes(pool_size if strides is None else strides, self.rank),
                "pad": _sizes(padding, self.rank),
                "pooling_convention": "full" if ceil_mode else "valid",
            }
            if self.kind == "avg":
                self._settings["count_include_pad"] = count_include_pad

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.Pooling(x, **self._settings)


def _pooling(name: str, rank: int, kind: str, *, is_global: bool) -> type[_Pooling]:
    what = "whole input" if is_global else "window"
    words = {"max": "largest element", "avg": "mean"}
    attributes = {
        "rank": rank,
        "kind": kind,
        "is_global": is_global,
        "__doc__": f"The {words[kind]} of each {what}, over {rank} axes.",
        "__module__": __name__,
    }
    return type(name, (_Pooling,), attributes)


MaxPool1D = _pooling("MaxPool1D", 1, "max", is_global=False)
MaxPool2D = _pooling("MaxPool2D", 2, "max", is_global=False)
MaxPool3D = _pooling("MaxPool3D", 3, "max", is_global=False)
AvgPool1D = _pooling("AvgPool1D", 1, "avg", is_global=False)
AvgPool2D = _pooling("AvgPool2D", 2, "avg", is_global=False)
AvgPool3D = _pooling("AvgPool3D", 3, "avg", is_global=False)
GlobalMaxPool1D = _pooling("GlobalMaxPool1D", 1, "max", is_global=True)
GlobalMaxPool2D = _pooling("GlobalMaxPool2D", 2, "max", is_global=True)
GlobalMaxPool3D = _pooling("GlobalMaxPool3D", 3, "max", is_global=True)
GlobalAvgPool1D = _pooling("GlobalAvgPool1D", 1, "avg", is_global=True)
GlobalAvgPool2D = _pooling("GlobalAvgPool2D", 2, "avg", is_global=True)
GlobalAvgPool3D = _pooling("GlobalAvgPool3D", 3, "avg", is_global=True)


class ReflectionPad2D(HybridBlock):
    """Pads images with their mirror images.

    Args:
        padding: Pixels on each side.
        kwargs: As for all blocks.
    """

    def __init__(self, padding: Any = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._width = (0, 0, 0, 0, *(padding,) * 4) if isinstance(padding, int) else tuple(padding)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Compute the outputs."""
        return F.Pad(x, mode="reflect", pad_width=self._width)
