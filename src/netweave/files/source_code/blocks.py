"""Blocks of layers in written source code."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import onnx_ir as ir

from netweave.files.node_writer import NotWritable, NotWritableNodes, WriterTable
from netweave.graph import Graph, known_shape

if TYPE_CHECKING:
    from netweave.files.source_code.forward import Field, Step
    from netweave.files.source_code.node import SourceNode


# A part between two such places that has branches or several modules is a block. Blocks of one form, whose
# modules differ at most in what their constructors are given, become one class.

FAR = 20
"""A value that is read again after more steps passes by, as skips of a U-Net do: parts between may repeat."""

Form = tuple[Any, ...]
"""What must be equal in all blocks of a class."""

ACTIVATIONS = (
    *("F.relu(", "F.relu6(", "F.leaky_relu(", "F.elu(", "F.mish(", "torch.sigmoid(", "torch.tanh("),
    *("layers.ReLU(", "layers.LeakyReLU(", "layers.Activation("),
)
"""Begins of expressions that belong to the block before them."""


@dataclass(eq=False, slots=True)
class Block:
    """One part of the net that is like others.

    Attributes:
        steps: Its steps.
        entry: The value that it reads.
        exit: The value that it makes.
        kind: Its class.
        arguments: What its constructor is given.
    """

    steps: list[Step]
    entry: str
    exit: str
    kind: BlockClass
    arguments: tuple[Any, ...] = ()


@dataclass(eq=False, slots=True)
class BlockClass:
    """A class of blocks.

    Attributes:
        blocks: The blocks, in the net's order.
        columns: What differs: for each argument of the constructor, its value in each block.
        uses: Which argument a field of a step is given: by number of the step and name of the field.
    """

    blocks: list[Block] = field(default_factory=list)
    columns: list[tuple[Any, ...]] = field(default_factory=list)
    uses: dict[tuple[int, str], int] = field(default_factory=dict)

    @property
    def steps(self) -> list[Step]:
        """The steps of the first block, which stand for all."""
        return self.blocks[0].steps

    def given(self, number: int, arguments: Sequence[str]) -> dict[str, str]:
        """Return the fields of a step's module that are arguments of the class, with the arguments' names."""
        return {name: arguments[column] for (step, name), column in self.uses.items() if step == number}


def parts_of(steps: Sequence[Step], inputs: Sequence[str], outputs: Sequence[str]) -> list[Step | Block]:
    """Return the steps with those that repeat put together as blocks.

    Args:
        steps: The net.
        inputs: The values that it is given.
        outputs: The values that it makes.
    """
    used_elsewhere = {*outputs, *far_values(steps)}
    atoms = _with_activations(_atoms(steps, inputs))
    atoms = _with_periods(atoms, used_elsewhere)
    forms = _forms(atoms, used_elsewhere)
    counts = Counter(form for form in forms if form is not None)
    classes: dict[Form, BlockClass] = defaultdict(BlockClass)
    parts: list[Step | Block] = []
    for (atom, entry), form in zip(atoms, forms, strict=True):
        if form is None or entry is None or counts[form] < 2:
            parts += atom
        else:
            block = Block(list(atom), entry, atom[-1].outputs[0], classes[form])
            classes[form].blocks.append(block)
            parts.append(block)
    for kind in classes.values():
        _find_arguments(kind)
    return parts


Atom = tuple[list["Step"], str | None]
"""Steps between two cuts, and the value that goes in, if it is one."""

MAX_PERIOD = 4
"""So many parts at most follow one another again and again as one block."""


def _forms(atoms: Sequence[Atom], used_elsewhere: set[str]) -> list[Form | None]:
    """Return the form of each part that is worth a class, None for the others."""
    after = [entry for _, entry in atoms[1:]] + [None]
    return [
        _form(atom, entry) if _is_worth(atom, used_elsewhere, {entry, following}) else None
        for (atom, entry), following in zip(atoms, after, strict=True)
    ]


def _with_periods(atoms: Sequence[Atom], used_elsewhere: set[str]) -> list[Atom]:
    """Put parts together that follow one another in the same order at least twice, with two sums or more.

    Attention and the dense layers behind it are two parts, each with a sum at its end; a person writes the
    block of a transformer as one. Its blocks are given the same numbers; the stages of a residual net, which
    follow one another likewise, are not.
    """
    after = [entry for _, entry in atoms[1:]] + [None]
    forms = [
        (*_form(atom, entry), _given(atom)) if _is_closed(atom, used_elsewhere, {entry, following}) else None
        for (atom, entry), following in zip(atoms, after, strict=True)
    ]
    joined: list[Atom] = []
    at = 0
    while at < len(atoms):
        period = next((p for p in range(2, MAX_PERIOD + 1) if _repeats(atoms, forms, at, p)), 1)
        begin, wanted = at, forms[at : at + period]
        while at == begin or (period > 1 and forms[at : at + period] == wanted):
            pieces = atoms[at : at + period]
            joined.append(([step for piece, _ in pieces for step in piece], pieces[0][1]))
            at += period
    return joined


def _repeats(atoms: Sequence[Atom], forms: Sequence[Form | None], at: int, period: int) -> bool:
    """Return whether parts begin here, two of them sums and different, that come once more right behind."""
    pieces = forms[at : at + period]
    if None in pieces or pieces != forms[at + period : at + 2 * period]:
        return False
    sums = {
        form
        for form, (atom, entry) in zip(pieces, atoms[at : at + period], strict=True)
        if sum(step.inputs.count(entry) for step in atom if entry is not None) > 1
    }
    return len(sums) > 1


def _atoms(steps: Sequence[Step], inputs: Sequence[str]) -> list[Atom]:
    """Cut the steps where one value alone goes on; each with the value that goes in, if it is one."""
    last_use = _last_near_uses(steps)
    alive = {name for name in inputs if name in last_use}
    atoms: list[Atom] = []
    atom: list[Step] = []
    entry = next(iter(alive)) if len(alive) == 1 else None
    for number, step in enumerate(steps):
        atom.append(step)
        alive |= {name for name in step.outputs if last_use.get(name, -1) > number}
        alive = {name for name in alive if last_use[name] > number}
        if len(alive) <= 1:
            atoms.append((atom, entry))
            atom, entry = [], next(iter(alive), None)
    return [*atoms, (atom, entry)] if atom else atoms


def _last_near_uses(steps: Sequence[Step], far: int = FAR) -> dict[str, int]:
    """Return the number of the last step that reads a value before so many steps go by without it."""
    made_at = {name: number for number, step in enumerate(steps) for name in step.outputs}
    used: dict[str, int] = {}
    for number, step in enumerate(steps):
        for name in step.inputs:
            before = used.get(name, made_at.get(name, 0))
            if number - before <= far:
                used[name] = number
    return used


def far_values(steps: Sequence[Step], far: int = FAR) -> set[str]:
    """Return the values that are read again after more than so many steps without them."""
    near = _last_near_uses(steps, far)
    return {name for number, step in enumerate(steps) for name in step.inputs if number > near.get(name, -1)}


def _with_activations(atoms: list[Atom]) -> list[Atom]:
    """Put an activation to the block that it follows."""
    joined: list[Atom] = []
    for atom, entry in atoms:
        if (
            joined
            and len(atom) == 1
            and atom[0].template.startswith(ACTIVATIONS)
            and len(joined[-1][0]) > 1
            and atom[0].inputs == joined[-1][0][-1].outputs
        ):
            joined[-1][0].append(atom[0])
        else:
            joined.append((list(atom), entry))
    return joined


def _is_worth(atom: Sequence[Step], outputs: set[str], around: set[str | None]) -> bool:
    """Return whether a part of a net deserves a class of its own.

    It does with two modules or more, if only its last value is used outside.
    """
    return sum(step.module is not None for step in atom) >= 2 and _is_closed(atom, outputs, around)


def _is_closed(atom: Sequence[Step], outputs: set[str], around: set[str | None]) -> bool:
    """Return whether a part gives out its last value alone.

    Args:
        atom: The part.
        outputs: Values that are needed elsewhere: by the net's user, or far behind.
        around: The values that go into the part and on after it.
    """
    inner = {name for step in atom[:-1] for name in step.outputs}
    return len(atom[-1].outputs) == 1 and not inner & {*outputs, *around}


def _form(atom: Sequence[Step], entry: str | None) -> Form:
    places = {name: (number, at) for number, step in enumerate(atom) for at, name in enumerate(step.outputs)}
    return tuple(
        (
            step.template,
            tuple("entry" if name == entry else places.get(name, name) for name in step.inputs),
            len(step.outputs),
            step.module and (step.module.type, tuple(each.name for each in step.module.fields)),
            step.module and tuple(step.module.state),
        )
        for step in atom
    )


def _given(atom: Sequence[Step]) -> tuple[str, ...]:
    """Return what the constructors of a part's modules are given."""
    return tuple(repr(each.value) for step in atom if step.module for each in step.module.fields)


def _find_arguments(kind: BlockClass) -> None:
    """Find what differs between the blocks of a class; fields that differ alike share an argument."""
    for number, step in enumerate(kind.steps):
        for index, each in enumerate(step.module.fields if step.module else ()):
            column = tuple(_field(block, number, index).value for block in kind.blocks)
            if len(set(map(repr, column))) == 1:
                continue
            if column not in kind.columns:
                kind.columns.append(column)
            kind.uses[number, each.name] = kind.columns.index(column)
    for number, block in enumerate(kind.blocks):
        block.arguments = tuple(column[number] for column in kind.columns)


def _field(block: Block, step: int, index: int) -> Field:
    module = block.steps[step].module
    assert module is not None
    return module.fields[index]


# T steps, N examples, H hidden units, D directions.

BATCH_FIRST = [1, 0, 2]


def batch_first(node: ir.Node) -> ir.Value | None:
    """Return what is transposed into the sequence of a recurrent node, if the batch comes first there."""
    maker = node.inputs[0].producer() if node.inputs[0] is not None else None
    return maker.inputs[0] if maker is not None and _is(maker, "Transpose", perm=BATCH_FIRST) else None


def joined(output: ir.Value, columns: int) -> ir.Value | None:
    """Return (T, N, D * H) if nothing but that is made of the output: what frameworks give."""
    reader = _only_reader(output)
    if reader is not None and _is(reader, "Squeeze"):
        axes = reader.inputs[1].const_value if len(reader.inputs) > 1 and reader.inputs[1] else None
        return reader.outputs[0] if axes is not None and axes.numpy().tolist() == [1] else None
    return _reshaped(reader, [0, 2, 1, 3], columns)


def by_batch(output: ir.Value, columns: int) -> ir.Value | None:
    """Return (N, T, D * H) if nothing but that is made of the output: as the batch comes first."""
    if (made := _reshaped(_only_reader(output), [2, 0, 1, 3], columns)) is not None:
        return made
    by_step = joined(output, columns)
    turned = _only_reader(by_step) if by_step is not None else None
    return turned.outputs[0] if turned is not None and _is(turned, "Transpose", perm=BATCH_FIRST) else None


def last_state(state: ir.Value, columns: int) -> ir.Value | None:
    """Return (N, D * H) if nothing but that is made of a last state, (D, N, H): what frameworks give."""
    reader = _only_reader(state)
    if reader is not None and _is(reader, "Squeeze"):
        shape = known_shape(reader.outputs[0])
        return reader.outputs[0] if shape and len(shape) == 2 and shape[1] == columns else None
    return _reshaped(reader, BATCH_FIRST, columns, rank=2)


def first_state(state: ir.Value) -> ir.Value | None:
    """Return the (N, H) that a first state, (1, N, H), is made of by an axis more, if it is."""
    maker = state.producer()
    return maker.inputs[0] if maker is not None and _is(maker, "Unsqueeze") else None


def _reshaped(
    transpose: ir.Node | None, perm: Sequence[int], columns: int, *, rank: int = 3
) -> ir.Value | None:
    """Return what directions and units are put together in, behind a transpose that brings them together."""
    if transpose is None or not _is(transpose, "Transpose", perm=perm):
        return None
    reshape = _only_reader(transpose.outputs[0])
    shape = known_shape(reshape.outputs[0]) if reshape is not None and _is(reshape, "Reshape") else None
    return reshape.outputs[0] if reshape and shape and len(shape) == rank and shape[-1] == columns else None


def _only_reader(value: ir.Value) -> ir.Node | None:
    uses = list(value.uses())
    return uses[0].node if len(uses) == 1 and not value.is_graph_output() else None


def _is(node: ir.Node, op_type: str, *, perm: Sequence[int] | None = None) -> bool:
    if node.domain or node.op_type != op_type:
        return False
    return perm is None or list(node.attributes.get_ints("perm", [])) == list(perm)


NodeT = TypeVar("NodeT", bound="SourceNode")


def write_steps(
    graph: Graph,
    table: WriterTable[NodeT, Step | list[Step]],
    make_node: Callable[[ir.Node, Graph], NodeT],
    target: str,
) -> list[Step]:
    """Return the steps of all nodes that an output of the graph needs once they are written, in their order.

    What only computes sizes, or a constant that stands in the constructor of a module, is not written.

    Raises:
        UnsupportedError: Some nodes cannot be written; each reason is named once.
    """
    read = {value.name for value in graph.outputs}
    written: list[list[Step]] = []
    reasons: dict[ir.Node, NotWritable] = {}
    for node in reversed(graph.nodes):
        if read.isdisjoint(value.name for value in node.outputs):
            continue
        try:
            result = table.find(node)(make_node(node, graph))
        except NotWritable as reason:
            reasons[node] = reason
            continue
        steps = result if isinstance(result, list) else [result]
        written.append(steps)
        read.update(name for step in steps for name in step.inputs)
    not_writable = NotWritableNodes(graph, target)
    for node in reversed(reasons):
        with not_writable.collecting(node):
            raise reasons[node]
    not_writable.check()
    return needed([step for steps in reversed(written) for step in steps], graph)


def needed(steps: Sequence[Step], graph: Graph) -> list[Step]:
    """Return the steps that make what an output needs; of two that make the same value, the first."""
    made: set[str] = set()
    firsts = []
    for step in steps:
        if not made.intersection(step.outputs):
            firsts.append(step)
        made.update(step.outputs)
    read = {value.name for value in graph.outputs}
    kept = []
    for step in reversed(firsts):
        if read.intersection(step.outputs):
            kept.append(step)
            read.update(step.inputs)
    return kept[::-1]


def without_identities(steps: Sequence[Step], graph: Graph) -> list[Step]:
    """Return the steps without those that pass on what comes in, unless an input goes straight out."""
    names = _named_like_outputs(steps, {value.name for value in graph.outputs})
    ends = {value.name for value in graph.outputs}
    kept: list[Step] = []
    for step in steps:
        inputs = tuple(names.get(name, name) for name in step.inputs)
        outputs = tuple(names.get(name, name) for name in step.outputs)
        if step.template == "{0}" and (outputs[0] not in ends or inputs[0] == outputs[0]):
            names[step.outputs[0]] = inputs[0]
        else:
            kept.append(replace(step, inputs=inputs, outputs=outputs))
    return kept


def _named_like_outputs(steps: Sequence[Step], ends: set[str | None]) -> dict[str, str]:
    """Return the output of the net that a value of a step is passed on as, by the value's name."""
    made = {name for step in steps if step.template != "{0}" for name in step.outputs} - ends
    passed = [step for step in steps if step.template == "{0}" and step.outputs[0] in ends]
    return {step.inputs[0]: step.outputs[0] for step in reversed(passed) if step.inputs[0] in made}
