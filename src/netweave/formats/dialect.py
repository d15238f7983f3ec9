"""The dialect of a format: how its files spell what layers compute, as plain data.

Each format has a module ``dialect`` with one ``DIALECT``. Explanations and fixes read it, so that a proposal
is written in the words of the user's own file. Settings and operators have ONNX's names (``pads``,
``MaxPool``); a key ``Operator.setting`` holds for one operator only.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

Words = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Padding:
    """Spelling of the padding of a convolution or pooling.

    In the templates, ``{begin}`` and ``{end}`` are the sizes before and after the image, written as all sizes
    are, ``{begin_end}`` a list of both; ``{rows}`` and ``{columns}`` those before it along each axis,
    ``{axes}`` a tuple of these; ``{pairs}`` lists of before and after for each axis.

    Attributes:
        both: The padding, if it is the same before and after the image; "" if it cannot be written.
        by_axis: The same, if rows and columns differ; "" if ``both`` says that too.
        each: Any padding; "" if it cannot be written.
        zero: No padding; "" if ``both`` says that too.
        same: The rule that TensorFlow calls SAME; "" if there is none.
        before: A layer before this one that pads alike on both sides; "" if nothing is proposed.
        before_both_sides: A layer before this one that pads in any way; likewise.
        divided: A pooling's padding in all, if the smaller half goes before the image; "" if it is not so.
    """

    both: str = ""
    by_axis: str = ""
    each: str = ""
    zero: str = ""
    same: str = ""
    before: str = ""
    before_both_sides: str = ""
    divided: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCalls:
    """Names of the pooling calls in code, for a fix that changes the kind of a pooling.

    In the templates, ``{rank}`` is the number of image axes, ``{sizes}`` kernel, stride and padding as
    keyword arguments, and ``{up}`` True or False: whether the output size is rounded up.

    Attributes:
        max: The call of a max pooling.
        average: The call of an average pooling.
        global_max: Of one over the whole image; "" if there is no such call.
        global_average: Likewise.
        max_roundings: Rounding rules that ``max`` can say.
        average_roundings: Rounding rules that ``average`` can say.
        without_padding: What makes an average leave the padding out, put in place of ``{counts}``; None if
            the padding always counts.
        ranks: Numbers of image axes that there are calls for.
    """

    max: str
    average: str
    global_max: str = ""
    global_average: str = ""
    max_roundings: frozenset[str] = frozenset({"floor", "ceil", "caffe"})
    average_roundings: frozenset[str] = frozenset({"floor", "ceil", "caffe"})
    without_padding: str | None = None
    ranks: frozenset[int] = frozenset({1, 2, 3})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """Spelling of a layer that resizes images.

    Attributes:
        modes: The interpolation, by ONNX's name for it.
        rules: The coordinates, by ONNX's ``coordinate_transformation_mode``; "" for all other rules.
        modes_with_rules: Interpolations that take ``rules``.
        lacks: Rules that no layer of the framework computes; ONNX's names are used for these.
        is_complete: Whether the interpolation is always part of the proposal.
    """

    modes: Words
    rules: Words = field(default_factory=dict)
    modes_with_rules: frozenset[str] = frozenset({"linear", "cubic"})
    lacks: frozenset[str] = frozenset()
    is_complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """The text that a fix changes, or the model.

    Attributes:
        name: A key of ``netweave.comparison.fixes.mending.EDITORS``, or ``model``.
        endings: Ends of the names of the files that are such texts.
        copies_layers: Whether a missing layer can be copied from another text of the format.
    """

    name: str
    endings: tuple[str, ...] = ("",)
    copies_layers: bool = False


Filler = tuple[str, dict[str, Any]]
"""The name of a filler and its settings, as the framework has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstValues:
    """Values that a parameter starts training from, as the framework sets them.

    Attributes:
        setting: The setting of a layer or parameter that says them.
        ignores_case: Whether the names of fillers may be written in any case.
        by_role: Where nobody says: constants by the role of the parameter, the key "" for all others.
        by_name: Where nobody says: fillers by patterns of the parameter's name, the first match wins.
        weights: The filler for other names that end in ``weight``; None if there is no rule by name.
    """

    setting: str = "an initializer"
    ignores_case: bool = False
    by_role: Mapping[str, float] = field(default_factory=dict)
    by_name: tuple[tuple[str, Filler], ...] = ()
    weights: Filler | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The words in which the files of a format describe layers.

    Attributes:
        setting: A setting, from ``{name}`` and ``{value}``.
        names: Names of settings, by ONNX's; with ``{}`` for each axis, a whole setting of several sizes.
        sizes: Sizes along several axes, from ``{sizes}``, which are joined by ``separator``.
        separator: What stands between sizes.
        window_sizes: The same for kernel, strides and dilations; "" if these are written like others.
        is_one_size: Whether sizes that are all the same are written as one number.
        booleans: How False and True are written; None for 0 and 1.
        inverted: Settings that are true where ONNX's are false.
        rounding: How a pooling's rounding rule is written; None if poolings have padding alone.
        padding: How padding is written.
        padding_layer: A layer that pads images, from ``{rows}`` and ``{columns}``, pairs of before and after.
        channels_last: Whether the axes of an image may be written with the channels last.
        filters: The number of filters of a convolution, from ``{}``.
        units: The number of units of a dense layer, from ``{}``.
        bias: How a layer without and with a bias is written; empty if no setting says it.
        slopes: How a PReLU with one slope and one with a slope for each channel (``{count}``) is written.
        resizing: How images are resized; None for ONNX's names.
        operators: How a layer's operator is written: one table for each setting whose values these are.
        is_op_type: Whether the operator's ONNX name is itself a setting.
        rectifier_slope: The slope ``{alpha}`` of a rectifier, if one layer type has it or not.
        activations: Activations by operator, ``{alpha}`` being the slope; those with a slope that is not the
            default have the key ``Operator.alpha``.
        own_activations: How a layer itself says which activation follows it; the key "" is for none.
        own_slope: The slope of a ``LeakyRelu`` among these, which is fixed.
        bounded_rectifier: A rectifier with the upper bound ``{bound}``.
        bounded_rectifiers: The same for some bounds, by the bound.
        arithmetic: How a sum, product or difference of two tensors is written.
        reductions: Poolings over the whole image, by the operator that they are read as; from ``{rank}``.
        functions: How functions that are several nodes in some net are written.
        poolings: How code calls poolings; None if no code does.
        sums_in_lrn: Whether ``alpha`` of an LRN is a factor of the sum over the window, not of the mean.
        radius: Settings that are written as the radius of the window.
        fixed_scale: The setting that keeps the scale of a batch normalisation at 1; "" if there is none.
        has_modes: Whether a file is either for training or for inference, and not for both.
        first_values: How parameters without values start a training.
        log: What a line in the log of a training is about: an ``iteration``, a ``step`` of a phase, or an
            ``update``.
        editor: How fixes change its text; None if it is no text.
    """

    setting: str = "{name}={value}"
    names: Words = field(default_factory=dict)
    sizes: str = "[{sizes}]"
    separator: str = ", "
    window_sizes: str = ""
    is_one_size: bool = False
    booleans: tuple[str, str] | None = None
    inverted: frozenset[str] = frozenset()
    rounding: Words | None = field(default_factory=dict)
    padding: Padding = field(default_factory=lambda: Padding(each="pads={begin_end}"))
    padding_layer: str = ""
    channels_last: bool = False
    filters: str = "{:,} filters"
    units: str = "{:,} filters"
    bias: tuple[str, ...] = ()
    slopes: tuple[str, str] = ("learn one slope for all channels", "learn one slope for each channel")
    resizing: Resizing | None = None
    operators: tuple[Words, ...] = ()
    is_op_type: bool = False
    rectifier_slope: str = ""
    activations: Words = field(default_factory=dict)
    own_activations: Words = field(default_factory=dict)
    own_slope: float | None = None
    bounded_rectifier: str = ""
    bounded_rectifiers: Words = field(default_factory=dict)
    arithmetic: Words = field(default_factory=dict)
    reductions: Words = field(default_factory=dict)
    functions: Words = field(default_factory=dict)
    poolings: PoolCalls | None = None
    sums_in_lrn: bool = False
    radius: frozenset[str] = frozenset()
    fixed_scale: str = ""
    has_modes: bool = True
    first_values: FirstValues = field(default_factory=FirstValues)
    log: str = "iteration"
    editor: Editor | None = None


@cache
def dialect_of(format: str) -> Dialect:  # noqa: A002
    """Return the dialect of a format by its name in the table of formats; one of ONNX's words for others."""
    try:
        module = importlib.import_module(f"netweave.formats.{format}.dialect")
    except ModuleNotFoundError:
        return Dialect()
    dialect: Dialect = module.DIALECT
    return dialect
