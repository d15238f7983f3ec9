"""A net as steps of Python: what a module is made of, and the expression that calls it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from netweave.files.source_code.text import literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np


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
