"""PyTorch source as text: a class with one line a module, and one line a call; what the injector edits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

HEAD = '''"""{title}"""

import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
'''


def word(name: str) -> str:
    """Return a name of another framework as one that Python takes."""
    found = re.sub(r"\W", "_", name)
    return found if found[:1].isalpha() else f"n{found}"


@dataclass
class Port:
    """Collects the lines of a port.

    Attributes:
        title: What is ported, for its docstring.
        inputs: Arguments of ``forward``.
        modules: Lines that make modules.
        calls: Lines of ``forward``.
    """

    title: str
    inputs: list[str]
    modules: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def module(self, name: str, made: str) -> str:
        """Add a module and return how it is called."""
        self.modules.append(f"self.{name} = {made}")
        return f"self.{name}"

    def call(self, output: str, expression: str) -> None:
        """Add a line of ``forward``."""
        self.calls.append(f"{output} = {expression}")

    def text(self, outputs: list[str]) -> str:
        """Return the source."""
        made = "".join(f"        {line}\n" for line in self.modules)
        calls = "".join(f"        {line}\n" for line in self.calls)
        head = HEAD.format(title=self.title)
        returned = f"        return {', '.join(outputs)}\n"
        return f"{head}{made}\n    def forward(self, {', '.join(self.inputs)}):\n{calls}{returned}"


@dataclass(frozen=True)
class Line:
    """A line of source that makes a module, or calls something.

    Attributes:
        number: Its place, from 0.
        target: What is assigned, without ``self.``.
        function: What is called, without ``self.``: ``nn.Conv2d``, ``conv1``, ``torch.cat``.
        arguments: Positional arguments as source.
        settings: Keyword arguments as source.
        member: Whether a module of the net is called.
    """

    number: int
    target: str
    function: str
    arguments: tuple[str, ...]
    settings: dict[str, str]
    member: bool

    def text(self) -> str:
        """Return the line as source, without indentation."""
        given = [*self.arguments, *(f"{name}={value}" for name, value in self.settings.items())]
        made = self.function.startswith("nn.")
        called = f"self.{self.function}" if self.member else self.function
        return f"{'self.' if made else ''}{self.target} = {called}({', '.join(given)})"

    def having(self, **settings: str) -> Line:
        """Return the line with other keyword arguments."""
        return replace(self, settings={**self.settings, **settings})


def lines_of(source: str) -> Iterator[Line]:
    """Yield the lines that make modules and those that call something, in order."""
    for number, text in enumerate(source.splitlines()):
        if " = " not in text:
            continue
        statement = ast.parse(text.strip()).body[0]
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        call, target = statement.value, ast.unparse(statement.targets[0]).removeprefix("self.")
        function = ast.unparse(call.func)
        yield Line(
            number,
            target,
            function.removeprefix("self."),
            tuple(ast.unparse(argument) for argument in call.args),
            {str(keyword.arg): ast.unparse(keyword.value) for keyword in call.keywords},
            function.startswith("self."),
        )


def edited(source: str, *changes: tuple[Line, str]) -> str:
    """Return source with the text of some lines replaced; an indentation stays as it is."""
    rows = source.splitlines(keepends=True)
    for line, text in changes:
        indent = rows[line.number][: len(rows[line.number]) - len(rows[line.number].lstrip())]
        rows[line.number] = "".join(f"{indent}{row}\n" for row in text.split("\n"))
    return "".join(rows)
