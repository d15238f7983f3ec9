"""The body of ``forward``: steps as statements, calls within calls where a person would write them so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from netweave.files.source_code.steps import Step

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
