"""Writer of Keras's source code."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from netweave.files import OutputFiles
from netweave.files.output_files import replacing_files, require_weights
from netweave.files.source_code.blocks import (
    Block,
    BlockClass,
    far_values,
    needed,
    parts_of,
    without_identities,
    write_steps,
)
from netweave.files.source_code.forward import (
    Forward,
    Module,
    Names,
    Step,
    block_name,
    identifier,
    shared_prefix,
    stem_of,
)
from netweave.files.source_code.text import WIDTH, commented, file_name, literal, printable, wrapped
from netweave.formats.keras.source.operators import TABLE
from netweave.formats.keras.source.table import KerasNode, channels_last_values, order
from netweave.graph import Graph, known_shape
from netweave.graph.naming import free_name, take_name
from netweave.graph.passes import (
    absorb_biases,
    absorb_scales,
    attention_fusion,
    chain,
    channels_first,
    fuse_gelu,
    fuse_layer_norm,
    prune,
    see_through,
    specialise,
    to_inference,
)

_KEPT = re.compile(r"layers\.Global(Average|Max)Pooling[123]D\(keepdims=True\)\(\{0\}\)")


def steps_of(graph: Graph) -> list[Step]:
    """Return a net's nodes as steps, in their order.

    Raises:
        UnsupportedError: Some cannot be written; each kind is named once, with the reason.
    """
    make_node = partial(KerasNode, channels_last=channels_last_values(graph))
    steps = write_steps(graph, TABLE, make_node, "Keras source")
    steps = without_identities(needed(_without_turns(steps), graph), graph)
    return _without_flattens(steps, [value.name or "" for value in graph.outputs])


_TURN = "ops.transpose({0}, (1, 0, 2))"
"""A sequence with its steps first, or with them second again."""


def _without_turns(steps: Sequence[Step]) -> list[Step]:
    """Return the steps without sequences turned and turned back, as they are between recurrent layers."""
    turned = {step.outputs[0]: step.inputs[0] for step in steps if step.template == _TURN}
    return [
        replace(step, template="{0}", inputs=(turned[step.inputs[0]],))
        if step.template == _TURN and step.inputs[0] in turned
        else step
        for step in steps
    ]


def _without_flattens(steps: Sequence[Step], outputs: Sequence[str]) -> list[Step]:
    """Return the steps with a global pooling and the flatten behind it as one."""
    uses = Counter(name for step in steps for name in step.inputs) + Counter(outputs)
    makers = {step.outputs[0]: step for step in steps}
    gone: set[int] = set()
    steps_kept: list[Step] = []
    for step in steps:
        pooling = makers.get(step.inputs[0])
        is_kept = pooling and _KEPT.fullmatch(pooling.template)
        if pooling and is_kept and step.template == "layers.Flatten()({0})" and uses[step.inputs[0]] == 1:
            gone.add(id(pooling))
            template = pooling.template.replace("keepdims=True", "")
            step = replace(pooling, template=template, outputs=step.outputs)
        steps_kept.append(step)
    return [step for step in steps_kept if id(step) not in gone]


# They are made of ``keras.ops``, so that a model that is saved needs the file no more.

FUNCTIONS = {
    "local_response_norm": '''def local_response_norm(x, size, alpha, beta, bias):
    """Divide by the energy of the channels around each one, for which Keras has no layer."""
    before = (size - 1) // 2
    squares = ops.pad(ops.square(x), ((0, 0), (0, 0), (0, 0), (before, size - 1 - before)))
    energy = sum(squares[..., first : first + x.shape[-1]] for first in range(size))
    return x / ops.power(bias + alpha / size * energy, beta)
''',
}
"""Their text by their names."""


HEAD = '''"""{title} in Keras 3, written by Netweave.

From {source}, whose names its layers have. Images have channels last.
"""

from pathlib import Path

import keras
import numpy as np
from keras import {names}

WEIGHTS = Path(__file__).with_suffix(".npz")
'''

LOAD = '''def load(path=WEIGHTS):
    """Return the net with its weights."""
    net = build()
    with np.load(path) as arrays:
        for layer in net.layers:
            if layer.weights:
                layer.set_weights([arrays[weight.path] for weight in layer.weights])
    return net
'''

_KINDS = {"BatchNormalization": "bn", "Conv2D": "conv", "Conv2DTranspose": "deconv", "Dense": "fc"}
_FUNCTIONS = {
    "build",
    "load",
    "keras",
    "layers",
    "np",
    "ops",
    *FUNCTIONS,
    "x",
    "name",
    "inputs",
    "net",
    "path",
    "Path",
    "WEIGHTS",
}
_MEETINGS = {"layers.Add": "residual", "layers.Concatenate": "branches", "layers.Multiply": "gated"}
"""What a block is called by the layer in which its branches meet."""

SKIP = 8
"""A value that is read again after more statements has the name of its layer."""

_LOOP = re.compile(r"(?P<target>\w+) = LOOP(?P<number>\d+)\((?P<source>\w+)\)")


@dataclass(frozen=True, slots=True)
class Text:
    """A net as source.

    Attributes:
        text: The file.
        inputs: Name of the argument of Keras's for each input of the net.
        arrays: The arrays by layer and name: ``conv1/kernel``.
    """

    text: str
    inputs: dict[str, str]
    arrays: dict[str, np.ndarray]


def write_source(graph: Graph, *, title: str) -> Text:
    """Return a net, in the form in which it predicts and with channels first, as Python.

    Args:
        graph: The net.
        title: Name of the net.

    Raises:
        UnsupportedError: It has operators for which no layer of Keras is known.
    """
    return _Writer(graph, title).written()


class _Writer:
    def __init__(self, graph: Graph, title: str) -> None:
        self._graph = graph
        self._title = printable(title)
        self._outputs = [value.name or "" for value in graph.outputs]
        self._names: set[str] = set()
        self._inputs = {
            value.name or "": take_name(layer_name(value.name or "") or "input", self._names)
            for value in graph.inputs
        }
        self._functions: dict[int, str] = {}
        self._members: dict[int, list[str]] = {}
        self._loops: list[tuple[list[str], str]] = []
        self.arrays: dict[str, np.ndarray] = {}

    def written(self) -> Text:
        steps = steps_of(self._graph)
        parts = parts_of(steps, list(self._inputs), self._outputs)
        blocks = [part for part in parts if isinstance(part, Block)]
        kinds = list(dict.fromkeys(block.kind for block in blocks))
        functions = [self._function(kind) for kind in kinds]
        own = [text for name, text in FUNCTIONS.items() if any(f"{name}(" in step.template for step in steps)]
        code = [*own, *functions, self._build(parts), LOAD]
        names = "layers, ops" if any("ops." in text for text in code) else "layers"
        head = HEAD.format(title=self._title, source=file_name(self._graph), names=names)
        text = "\n\n".join([head, *code])
        return Text(text, self._inputs, self.arrays)

    def _function(self, kind: BlockClass) -> str:
        """Return the function that makes blocks of a kind."""
        taken = {*self._functions.values(), *_FUNCTIONS}
        name = take_name(_function_name(kind), taken)
        self._functions[id(kind)] = name
        self._members[id(kind)] = _member_suffixes(kind)
        arguments = _argument_names(kind)
        modules = {}
        for number, step in enumerate(kind.steps):
            if step.module:
                name_text = f'f"{{name}}{self._members[id(kind)][number]}"'
                modules[number] = _constructor(step.module, kind.given(number, arguments), name_text)
        names = [block_name(block.steps) for block in kind.blocks]
        shown = ", ".join(dict.fromkeys(each for each in names if each))
        doc = shown if 0 < len(shown) < WIDTH - 20 else f"{len(kind.blocks)} parts of the net"
        lines = [f"def {name}({', '.join(['x', *arguments, 'name'])}):", f'    """{printable(doc)}."""']
        first = kind.blocks[0]
        lines += _statements(kind.steps, {first.entry: "x"}, [first.exit], modules)
        return "\n".join(part for line in lines for part in wrapped(line)) + "\n"

    def _build(self, parts: Sequence[Step | Block]) -> str:
        lines = ["def build():", '    """Return the net, its weights not yet loaded."""']
        variables, last = self._input_variables(), channels_last_values(self._graph)
        for value in self._graph.inputs:
            shape = known_shape(value) or ()
            axes = order(len(shape)) if value.name in last else range(len(shape))
            sizes = tuple(shape[axis] for axis in axes)[1:]
            dtype = "" if value.dtype is None or value.dtype.numpy() == np.float32 else ', dtype="int32"'
            name = self._inputs[value.name or ""]
            target = variables[value.name or ""]
            lines.append(f"    {target} = keras.Input({sizes}, name={name!r}{dtype})".replace("'", '"'))
        steps, modules = self._top_steps(parts)
        skips = self._skips(steps, variables)
        body = _statements(steps, variables, self._outputs, modules, is_top=True, wanted=skips)
        lines += [line for statement in body for line in self._loop_lines(statement)]
        result = lines.pop().strip().removeprefix("return ")
        ends = f"[{result}]" if len(self._outputs) > 1 else result
        starts = "inputs" if len(self._inputs) == 1 else f"[{', '.join(variables.values())}]"
        lines.append(f'    return keras.Model({starts}, {ends}, name="{layer_name(self._title) or "net"}")')
        return "\n".join(part for line in lines for part in wrapped(line)) + "\n"

    def _input_variables(self) -> dict[str, str]:
        """Return what each input is called in ``build``."""
        if len(self._inputs) == 1:
            return dict.fromkeys(self._inputs, "inputs")
        names = Names({*_FUNCTIONS, *self._functions.values()})
        return {name: names.free(name) for name in self._inputs}

    def _skips(self, steps: Sequence[Step], variables: dict[str, str]) -> dict[str, str]:
        """Return a variable for each value that is read again far on: what the source calls its layer."""
        names = Names({*_FUNCTIONS, *self._functions.values(), *variables.values(), "y"})
        far = far_values(steps, SKIP)
        return {
            step.outputs[0]: names.free(step.layers[-1] if step.layers else step.name)
            for step in steps
            if step.outputs[0] in far and not step.template.startswith("LOOP")
        }

    def _top_steps(self, parts: Sequence[Step | Block]) -> tuple[list[Step], dict[int, str]]:
        steps: list[Step] = []
        modules: dict[int, str] = {}
        for group in _runs(parts):
            if isinstance(group, Step):
                if group.module:
                    name = self._keep(group, layer_name(group.name))
                    modules[len(steps)] = _constructor(group.module, {}, f'"{name}"')
                steps.append(group)
            else:
                steps.append(self._call_of(group))
        return steps, modules

    def _call_of(self, run: Sequence[Block]) -> Step:
        """Return blocks with the same arguments, one after another, as a step."""
        names = [self._keep_block(block) for block in run]
        function = self._functions[id(run[0].kind)]
        given = "".join(f", {literal(value)}" for value in run[0].arguments)
        if len(run) == 1:
            template = f'{function}({{0}}{given}, name="{names[0]}")'
        else:
            template = f"LOOP{len(self._loops)}({{0}})"
            self._loops.append((names, f"{function}(VALUE{given}, name=name)"))
        return Step(names[0], (), template, (run[0].entry,), (run[-1].exit,))

    def _keep_block(self, block: Block) -> str:
        """Keep the arrays of a block and return its name: of the source, or a free one."""
        suffixes = self._members[id(block.kind)]
        wanted = layer_name(_prefix(block)) or self._functions[id(block.kind)]
        name, count = wanted, 1
        while any(f"{name}{suffix}" in self._names for suffix in suffixes if suffix):
            count += 1
            name = f"{wanted}_{count}"
        for step, suffix in zip(block.steps, suffixes, strict=True):
            if step.module:
                self._keep(step, f"{name}{suffix}")
        return name

    def _keep(self, step: Step, wanted: str) -> str:
        """Keep the arrays of a step's layer and return the layer's name."""
        name = take_name(wanted or "layer", self._names)
        for key, array in (step.module.state if step.module else {}).items():
            self.arrays[f"{name}/{key}"] = np.asarray(array(), order="C")
        return name

    def _loop_lines(self, line: str) -> list[str]:
        """Return a statement that stands for a loop as the loop."""
        match = _LOOP.search(line)
        if match is None:
            return [line]
        names, call = self._loops[int(match["number"])]
        target, source = match["target"], match["source"]
        before = [] if target == source else [f"    {target} = {source}"]
        shown = ", ".join(f'"{name}"' for name in names)
        head = f"    for name in ({shown}):"
        lines = [head]
        if len(head) > WIDTH:
            lines = ["    for name in (", *(f'        "{name}",' for name in names), "    ):"]
        return [*before, *lines, f"        {target} = {call.replace('VALUE', target)}"]


def layer_name(name: str) -> str:
    """Return a name as Keras allows it: letters, digits and underscores, a letter in front.

    >>> layer_name("inception_3a/1x1"), layer_name("3a"), layer_name("layers.0")
    ('inception_3a_1x1', 'layer_3a', 'layers_0')
    """
    plain = re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_")
    return f"layer_{plain}" if plain[:1].isdigit() else plain


def _prefix(block: Block) -> str:
    return re.sub(r"[^0-9A-Za-z]+$", "", shared_prefix([step.name for step in block.steps if step.module]))


def _function_name(kind: BlockClass) -> str:
    """Return a name for blocks: the source's, if it says something, or one of how their branches meet."""
    stem = stem_of([block_name(block.steps) for block in kind.blocks])
    word = identifier("".join(c for c in stem if not c.isdigit())).lower().strip("_")
    if len(word) > 4 and word not in {"block", "layer", "layers", "stage"}:
        return word
    ends = [
        word for step in kind.steps for start, word in _MEETINGS.items() if step.template.startswith(start)
    ]
    return ends[-1] if ends else "block"


def _member_suffixes(kind: BlockClass) -> list[str]:
    """Return what the name of each layer adds to that of its block: the source's, if all blocks agree."""
    prefixes = [_prefix(block) for block in kind.blocks]
    suffixes: list[str] = []
    for number, step in enumerate(kind.steps):
        if step.module is None:
            suffixes.append("")
            continue
        ends = {
            block.steps[number].name.removeprefix(prefix)
            for block, prefix in zip(kind.blocks, prefixes, strict=True)
        }
        plain = layer_name(f"x{ends.pop()}")[1:] if len(ends) == 1 else ""
        kind_name = _KINDS.get(step.module.type.removeprefix("layers."), "layer")
        wanted = plain if plain else f"_{kind_name}"
        wanted = wanted if all(prefixes) or not plain else f"_{plain.strip('_')}"
        suffixes.append(free_name(wanted, suffixes))
    return suffixes


def _argument_names(kind: BlockClass) -> list[str]:
    """Return a name for each argument of blocks: of the field, with its layer's where several have one."""
    suffixes = _member_suffixes(kind)
    fields = Counter(name for _, name in {(column, name) for (_, name), column in kind.uses.items()})
    taken = set(_FUNCTIONS)
    names = []
    for column in range(len(kind.columns)):
        number, field = next(place for place, used in kind.uses.items() if used == column)
        stem = field if fields[field] == 1 else f"{field}{suffixes[number]}"
        names.append(take_name(stem + ("_" if keyword.iskeyword(stem) else ""), taken))
    return names


def _constructor(module: Module, given: dict[str, str], name: str) -> str:
    parts = [part.replace("'", '"') for part in module.arguments(given)]
    return f"{module.type}({', '.join([*parts, f'name={name}'])})"


def _statements(
    steps: Sequence[Step],
    variables: dict[str, str],
    outputs: Sequence[str],
    modules: dict[int, str],
    *,
    is_top: bool = False,
    wanted: dict[str, str] | None = None,
) -> list[str]:
    """Return statements, indented, one call each, with the source's names where they are not in the code."""
    kept = variables.values() if is_top else ()
    body = Forward(steps, variables, outputs, modules, nests=False, kept=kept, wanted=wanted)
    return [commented(f"    {text}", layers if is_top else ()) for text, layers in body.lines]


def _runs(parts: Sequence[Step | Block]) -> list[Step | list[Block]]:
    """Return the parts with blocks put together that follow one another and have the same arguments."""
    runs: list[Step | list[Block]] = []
    for part in parts:
        last = runs[-1] if runs else None
        if isinstance(part, Step):
            runs.append(part)
        elif isinstance(last, list) and _continues(last[-1], part):
            last.append(part)
        else:
            runs.append([part])
    return runs


def _continues(before: Block, block: Block) -> bool:
    is_alike = before.kind is block.kind and repr(before.arguments) == repr(block.arguments)
    return is_alike and before.exit == block.entry


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write ``NAME.py``, and ``NAME.npz`` beside it.

    The net is written as it predicts, and images have channels last.
    """
    require_weights(graph, random_weights=random_weights)
    plain = chain(to_inference, see_through, absorb_scales, absorb_biases, prune)(graph)
    settled = channels_first(specialise(plain))
    source = write_source(
        chain(fuse_layer_norm, fuse_gelu, attention_fusion(projected_only=True))(settled), title=path.stem
    )
    with replacing_files(path) as folder:
        (folder / path.name).write_text(source.text)
        np.savez(folder / f"{path.stem}.npz", allow_pickle=False, **source.arrays)
    return OutputFiles(path, None, entry="load", inputs=None, one_size=True)
