"""The forward function of written source code."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from netweave.files.source_code.text import literal
from netweave.graph.naming import take_name

MAX_DEPTH = 3
"""So many calls stand within each other: activation, normalisation, convolution."""

MAX_INLINE = 72
"""An expression of more characters gets a line of its own."""


@dataclass(slots=True)
class _Expression:
    text: str
    binds: bool = True
    depth: int = 0
    reads: set[str] = field(default_factory=set)
    layers: list[str] = field(default_factory=list)


class Forward:
    """Statements for steps.

    Args:
        steps: The steps, in order.
        inputs: The variable of each value that is given.
        outputs: The values to return.
        modules: How the module of a step is called (``self.conv1``), by the number of the step.
        nests: Whether calls stand within calls; each is a line of its own otherwise.
        kept: Variables that are never given another value.
        wanted: What a person would call values that are read again far on, by their names; they are kept.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        inputs: Mapping[str, str],
        outputs: Sequence[str],
        modules: Mapping[int, str],
        *,
        nests: bool = True,
        kept: Collection[str] = (),
        wanted: Mapping[str, str] | None = None,
    ) -> None:
        self._kept = set(kept)
        self._wanted = wanted or {}
        self._depth = MAX_DEPTH if nests else 0
        self._uses = Counter(name for step in steps for name in step.inputs) + Counter(outputs)
        self._variables = dict(inputs)
        self._pending: dict[str, _Expression] = {}
        self._held: list[set[str]] = []  # what expressions read that are on their way into a statement
        self.lines: list[tuple[str, list[str]]] = []
        for number, step in enumerate(steps):
            self._add(step, modules.get(number, ""))
        results = self._take_all(outputs, depth=self._depth)
        self.lines.append(
            (
                "return " + ", ".join(result.text for result in results),
                [layer for result in results for layer in result.layers],
            )
        )

    def _add(self, step: Step, module: str) -> None:
        simple = all(step.template.count(f"{{{place}}}") == 1 for place in range(len(step.inputs)))
        depth = -1 if not simple else self._depth - 1 if len(step.inputs) == 1 else min(1, self._depth)
        operands = self._take_all(step.inputs, depth=depth)
        texts = [
            operand.text if operand.binds or _is_argument(step.template, place) else f"({operand.text})"
            for place, operand in enumerate(operands)
        ]
        text = step.template.replace("{m}", module)
        for place, operand_text in enumerate(texts):
            text = text.replace(f"{{{place}}}", operand_text)
        made = _Expression(
            text,
            step.binds,
            1 + max((operand.depth for operand in operands), default=0),
            set().union(*(operand.reads for operand in operands)),
            [layer for operand in operands for layer in operand.layers]
            + ([] if step.module or module else list(step.layers)),
        )
        if len(step.outputs) > 1:
            self._assign(step.outputs, made, wanted=step.variables)
            return
        self._pending[step.outputs[0]] = made
        if self._uses[step.outputs[0]] != 1 or len(text) > MAX_INLINE:
            self._assign(step.outputs, self._pending.pop(step.outputs[0]))

    def _take_all(self, names: Sequence[str], *, depth: int) -> list[_Expression]:
        """Return how values are written that are used together; none is overwritten on the way."""
        taken: list[_Expression] = []
        for name in names:
            taken.append(self._take(name, depth=depth))
            self._held.append(taken[-1].reads)
        del self._held[len(self._held) - len(taken) :]
        return taken

    def _take(self, name: str, *, depth: int) -> _Expression:
        """Return how a value is written where it is used once more."""
        expression = self._pending.get(name)
        if expression is not None and expression.depth > depth:
            self._assign((name,), self._pending.pop(name))
        elif expression is not None:
            self._uses[name] -= 1
            return self._pending.pop(name)
        self._uses[name] -= 1
        variable = self._variables[name]
        return _Expression(variable, reads={variable})

    def _assign(self, names: Sequence[str], expression: _Expression, *, wanted: Sequence[str] = ()) -> None:
        self._held.append(expression.reads)
        while longer := next((name for name, each in self._pending.items() if each.depth > 1), None):
            self._assign((longer,), self._pending.pop(longer))  # in the order in which they were begun
        self._held.pop()
        targets: list[str] = []
        for number in range(len(names)):
            name = wanted[number] if wanted else self._wanted.get(names[number], "")
            targets.append(self._variable(expression, name))
            if name and not wanted:
                self._kept.add(targets[-1])
            self._held.append({targets[-1]})
        del self._held[len(self._held) - len(targets) :]
        self._variables.update(zip(names, targets, strict=True))
        self.lines.append((f"{', '.join(targets)} = {expression.text}", expression.layers))

    def _variable(self, expression: _Expression, wanted: str = "") -> str:
        """Return a variable that nobody needs any more: the wanted one, one that is read here, a new one."""
        alive = {variable for name, variable in self._variables.items() if self._uses[name] > 0}
        alive |= {variable for pending in self._pending.values() for variable in pending.reads}
        alive = alive.union(self._kept, *self._held)
        if wanted:
            counted = (f"{wanted}{number}" for number in range(2, len(alive) + 3))
            return next(name for name in (wanted, *counted) if name not in alive)
        for variable in sorted(expression.reads, key=lambda name: (name != "x", name)):
            if variable not in alive:
                return variable
        number = 0
        while (variable := "x" if number == 0 else "y" if number == 1 else f"branch{number}") in alive:
            number += 1
        return variable


def _is_argument(template: str, place: int) -> bool:
    """Return whether a placeholder stands between a bracket or comma and another, and needs no brackets."""
    at = template.index(f"{{{place}}}")
    before, after = template[:at], template[at + 3 :]
    return (not before or before[-1] in "([," or before.endswith(", ")) and (not after or after[0] in ",)]")


@dataclass(frozen=True, slots=True)
class Field:
    """One argument of a module's constructor.

    Attributes:
        name: Its name in PyTorch.
        value: What this module is given.
        default: What PyTorch takes when it is left out; arguments without one are written by place.
    """

    name: str
    value: Any
    default: Any = None

    @property
    def is_positional(self) -> bool:
        """True if it is written by its place."""
        return self.default is None


@dataclass(frozen=True, slots=True)
class Module:
    """A module of PyTorch.

    Attributes:
        type: As it is called: ``nn.Conv2d``.
        fields: The arguments of its constructor.
        state: Its arrays by name (``weight``), made when they are written.
        name: What the source calls it, if that is not the name of its layer.
    """

    type: str
    fields: tuple[Field, ...]
    state: dict[str, Callable[[], np.ndarray]] = field(default_factory=dict)
    name: str = ""

    def arguments(self, given: Mapping[str, str], defaults: Mapping[str, Any] | None = None) -> list[str]:
        """Return the arguments of its constructor as they are written; those with their default are left out.

        Args:
            given: Expressions for fields that are no literals: arguments of the class that it stands in.
            defaults: Other defaults than the framework's, of classes that the file defines.
        """
        parts: list[str] = []
        for each in self.fields:
            text = given.get(each.name) or literal(each.value)
            if each.is_positional:
                parts.append(text)
            elif each.name in given or each.value != (defaults or {}).get(each.name, each.default):
                parts.append(f"{each.name}={text}")
        return parts


@dataclass(frozen=True, slots=True)
class Step:
    """One or more nodes as one expression of Python.

    Attributes:
        name: What a person would call its module.
        layers: The source's layers that it does.
        template: The expression: ``{0}``, ``{1}`` stand for its inputs, ``{m}`` for its module.
        inputs: Names of the values that it reads.
        outputs: Names of the values that it makes.
        module: Its module, if it has one.
        binds: How tightly the expression binds: True for a call or name, which needs no brackets.
        variables: What a person would call its outputs, if they are several.
    """

    name: str
    layers: tuple[str, ...]
    template: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    module: Module | None = None
    binds: bool = True
    variables: tuple[str, ...] = ()

    def with_bias(
        self, bias: Callable[[], np.ndarray], output: str, layers: tuple[str, ...], *, setting: str
    ) -> Step:
        """Return the step of a dense layer without bias with the bias that is added behind it.

        Args:
            bias: Loads the bias.
            output: Name of the sum.
            layers: The source's layers that add it.
            setting: The argument of the constructor that says whether there is a bias.
        """
        assert self.module is not None
        fields = tuple(
            replace(each, value=True) if each.name == setting else each for each in self.module.fields
        )
        module = Module(self.module.type, fields, {**self.module.state, "bias": bias})
        joined = tuple(dict.fromkeys((*self.layers, *layers)))
        return replace(self, layers=joined, outputs=(output,), module=module)


KINDS = {
    "ConvNorm": "conv",
    "nn.Conv1d": "conv",
    "nn.Conv2d": "conv",
    "nn.Conv3d": "conv",
    "nn.ConvTranspose1d": "deconv",
    "nn.ConvTranspose2d": "deconv",
    "nn.ConvTranspose3d": "deconv",
    "nn.Linear": "fc",
    "nn.BatchNorm1d": "norm",
    "nn.BatchNorm2d": "norm",
    "nn.BatchNorm3d": "norm",
    "nn.LayerNorm": "norm",
    "nn.MultiheadAttention": "attention",
    "nn.PReLU": "prelu",
    "nn.Parameter": "factor",
    "nn.Embedding": "embedding",
}
"""What a module is called that has no usable name of its own."""

TAKEN = frozenset(
    """
    T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double
    dump_patches eval extra_repr float forward get_buffer get_parameter get_submodule half ipu
    load_state_dict modules mtia named_buffers named_children named_modules named_parameters parameters
    requires_grad_ share_memory state_dict to to_empty train training type
    xpu zero_grad F nn torch json Path WEIGHTS self x
    """.split()  # noqa: SIM905 (a list of fifty strings is harder to read)
)
"""Names that modules of PyTorch, or the written file, have already."""


class Names:
    """Identifiers of one scope, each given once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def free(self, wanted: str, *, fallback: str = "layer") -> str:
        """Return an identifier like the wanted name.

        >>> names = Names()
        >>> names.free("inception_3a/1x1"), names.free("3x3"), names.free("class"), names.free("3x3")
        ('inception_3a_1x1', 'layer_3x3', 'class_', 'layer_3x3_2')
        """
        return take_name(identifier(wanted, fallback=fallback), self._taken)


def identifier(name: str, *, fallback: str = "layer") -> str:
    """Return an identifier of ASCII letters, digits and underscores for a name."""
    stem = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or fallback
    if stem[0].isdigit():
        stem = f"{fallback}_{stem}"
    if keyword.iskeyword(stem) or keyword.issoftkeyword(stem) or stem in TAKEN or hasattr(builtins, stem):
        stem += "_"
    return stem


def class_name(name: str) -> str:
    """Return a name for a class.

    >>> class_name("bvlc_googlenet"), class_name("ResNet-50"), class_name("3d"), class_name("")
    ('BvlcGooglenet', 'ResNet50', 'Net3d', 'Net')
    """
    parts = [part for part in re.split(r"[^0-9A-Za-z]+", name) if part]
    joined = "".join(part[0].upper() + part[1:] for part in parts)
    if not joined or joined[0].isdigit():
        joined = f"Net{joined}"
    return f"{joined}Net" if keyword.iskeyword(joined) or hasattr(builtins, joined) else joined


def kind_name(step: Step) -> str:
    """Return what a step's module is called for want of a better name."""
    return KINDS.get(step.module.type, "layer") if step.module else "layer"


def shared_prefix(names: Sequence[str]) -> str:
    """Return what names begin with in common, up to a place where a word ends.

    >>> shared_prefix(["res2a_branch1", "res2a_branch2a"]), shared_prefix(["3a/1x1", "3a/3x3"])
    ('res2a_', '3a/')
    """
    prefix = _shared(names)
    words = re.match(r".*[^0-9A-Za-z]", prefix)
    return words[0] if words else ""


def _shared(names: Sequence[str]) -> str:
    """Return the characters that all names begin with."""
    first, last = (min(names), max(names)) if names else ("", "")
    count = next((at for at, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), None)
    return first[: len(last) if count is None else count]


def stem_of(names: Sequence[str]) -> str:
    """Return what names of blocks begin with in common, without a broken word at the end.

    >>> stem_of(["res2a", "res2b", "res2c"]), stem_of(["a", "b"]), stem_of(["stage1_unit1", "stage1_unit2"])
    ('res2', '', 'stage1_unit')
    """
    return re.sub(r"[^0-9A-Za-z]+$", "", _shared(names))


def member_names(blocks: Sequence[Sequence[Step]]) -> list[str]:
    """Return a name for each step of a class of blocks: of the source, if all blocks agree, or its kind."""
    prefixes = [shared_prefix([step.name for step in steps if step.module]) for steps in blocks]
    names = Names(TAKEN)
    chosen: list[str] = []
    for each in zip(*blocks, strict=True):
        ends = {step.name.removeprefix(prefix) for step, prefix in zip(each, prefixes, strict=True)}
        wanted = ends.pop() if len(ends) == 1 else ""
        kind = kind_name(each[0])
        chosen.append(names.free(wanted or kind, fallback=kind) if each[0].module else "")
    return chosen


def block_name(steps: Sequence[Step]) -> str:
    """Return the source's name of a block: what its modules' names begin with in common."""
    return re.sub(r"[^0-9A-Za-z]+$", "", shared_prefix([step.name for step in steps if step.module]))
