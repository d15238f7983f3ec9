"""Detection operators: functions that the written file defines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.text import literal
from netweave.formats.lowering.nodes.names import plain_settings
from netweave.formats.pytorch.functions import FUNCTIONS
from netweave.formats.pytorch.source.table import PyTorchNode, writes
from netweave.graph import DOMAIN, find_operator

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Module, Step

_NAMES = {function.op_type: name for name, function in FUNCTIONS.items()}


@writes(*_NAMES, domain=DOMAIN)
def function(node: PyTorchNode) -> Step:
    """A call of the function, with the settings that are not its defaults."""
    numbers: list[int] = []
    parts: list[str] = []
    modules: list[Module] = []
    for index in range(node.num_inputs):
        text, read, module = node.operand(index, len(numbers))
        numbers += read
        parts.append(text)
        modules += [module] if module else []
    if len(modules) > 1:
        raise NotWritable("two of its inputs are stored")
    defaults = find_operator(node.op_type).defaults
    settings = plain_settings(node).items()
    parts += [f"{name}={_shown(value)}" for name, value in settings if value != defaults.get(name)]
    count = len(node.outputs)
    is_first = count == 1 and node.op_type in {"Proposal", "RegionProposal"}
    return node.step(
        f"{_NAMES[node.op_type]}({', '.join(parts)}){'[0]' if is_first else ''}",
        inputs=numbers,
        module=modules[0] if modules else None,
        num_outputs=count,
    )


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if not isinstance(value, tuple):
        return literal(value)
    return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
