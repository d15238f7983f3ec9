"""Writer of PyTorch's source code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from netweave.errors import UnsupportedError
from netweave.files import OutputFiles
from netweave.files.output_files import replacing_files, require_weights
from netweave.files.source_code.blocks import Block, BlockClass, parts_of, without_identities, write_steps
from netweave.files.source_code.forward import (
    TAKEN,
    Field,
    Forward,
    Module,
    Names,
    Step,
    block_name,
    class_name,
    kind_name,
    member_names,
    stem_of,
)
from netweave.files.source_code.text import WIDTH, commented, file_name, literal, printable, wrapped
from netweave.formats.pytorch.functions import sources, used_sources
from netweave.formats.pytorch.source.operators import TABLE
from netweave.formats.pytorch.source.table import PyTorchNode
from netweave.graph import Graph, known_shape
from netweave.graph.passes import (
    absorb_scales,
    chain,
    fuse_attention,
    fuse_gelu,
    fuse_layer_norm,
    prune,
    see_through,
    to_inference,
)
from netweave.installation import install_command

CONV_NORM_TYPE = "ConvNorm"
"""The module that the written file defines for a convolution with its normalisation."""

MIN_CONV_NORMS = 6
"""So many of them are worth a class of their own."""


def steps_of(graph: Graph) -> list[Step]:
    """Return a net's nodes as steps, in their order.

    Raises:
        UnsupportedError: Some cannot be written; each kind is named once, with the reason.
    """
    steps = write_steps(graph, TABLE, PyTorchNode, "PyTorch source")
    return _joined(without_identities(steps, graph))


def _joined(steps: list[Step]) -> list[Step]:
    """Return the steps with a two-dimensional convolution and its normalisation as one, if there are many."""
    uses = Counter(name for step in steps for name in step.inputs)
    makers = {step.outputs[0]: step for step in steps}
    pairs: dict[int, Step] = {}
    for step in steps:
        conv = makers.get(step.inputs[0]) if _is(step, "nn.BatchNorm2d") else None
        if conv and _is(conv, "nn.Conv2d") and uses[conv.outputs[0]] == 1:
            pairs[id(step)] = conv
    if len(pairs) < MIN_CONV_NORMS:
        return steps
    gone = {id(conv) for conv in pairs.values()}
    return [
        _conv_norm(pairs[id(step)], step) if id(step) in pairs else step
        for step in steps
        if id(step) not in gone
    ]


def _is(step: Step, kind: str) -> bool:
    return step.module is not None and step.module.type == kind


def _conv_norm(conv: Step, norm: Step) -> Step:
    assert conv.module is not None
    assert norm.module is not None
    fields = [
        replace(field, default=False) if field.name == "bias" else field for field in conv.module.fields
    ]
    more = [Field(field.name, field.value, field.default) for field in norm.module.fields[1:]]
    state = {f"conv.{name}": array for name, array in conv.module.state.items()}
    state |= {f"norm.{name}": array for name, array in norm.module.state.items()}
    return replace(
        conv,
        layers=tuple(dict.fromkeys(conv.layers + norm.layers)),
        outputs=norm.outputs,
        module=Module(CONV_NORM_TYPE, (*fields, *more), state),
    )


CONV_NORM = '''class ConvNorm(nn.Module):
    """A convolution, then normalisation by stored statistics."""

    def __init__(
        self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
        bias=False, eps={eps}, momentum={momentum},
    ):
        super().__init__()
        self.conv = nn.Conv2d(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias
        )
        self.norm = nn.BatchNorm2d(out_channels, eps, momentum)

    def forward(self, x):
        return self.norm(self.conv(x))
'''

LOAD = '''WEIGHTS = Path(__file__).with_suffix(".safetensors")


def load(path=WEIGHTS):
    """Return the net with its weights, ready to predict; they are numbers behind a header of JSON."""
    content = bytearray(Path(path).read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    types = {{"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}}
    state = {{}}
    for name, entry in json.loads(content[8:begin]).items():
        if name != "__metadata__":
            first, last = (begin + offset for offset in entry["data_offsets"])
            values = torch.frombuffer(content[first:last], dtype=types[entry["dtype"]])
            state[name] = values.reshape(entry["shape"])
    net = {name}()
    net.load_state_dict(state)
    return net.eval(){form}
'''

CHANNELS_LAST = ".to(memory_format=torch.channels_last)"
"""How images lie in memory: as in Netweave's own runs, so that both round alike (decision 0114)."""


def constructor(module: Module, given: Mapping[str, str], defaults: Mapping[str, Any]) -> str:
    """Return the call that makes a module.

    Args:
        module: The module.
        given: Expressions for fields that are no literals: arguments of the class that it stands in.
        defaults: Other defaults than PyTorch's, of classes that the file defines.
    """
    if module.type == "nn.Parameter":
        sizes = given.get("shape") or ", ".join(map(str, module.fields[0].value))
        return f"nn.Parameter(torch.empty({sizes}))"
    return f"{module.type}({', '.join(module.arguments(given, defaults))})"


def signature(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the first line of a method, or lines where it is too long for one."""
    line = f"    def {name}({', '.join(['self', *arguments])}):"
    if len(line) <= WIDTH:
        return [line]
    lines = ["        self,"]
    for argument in arguments:
        if len(lines[-1]) + len(argument) + 2 > WIDTH - 10:
            lines.append("       ")
        lines[-1] += f" {argument},"
    return [f"    def {name}(", *lines, "    ):"]


def forward_lines(
    steps: Sequence[Step],
    inputs: Mapping[str, str],
    outputs: Sequence[str],
    modules: Mapping[int, str],
    *,
    has_comments: bool,
) -> list[str]:
    """Return the method ``forward``, indented as it stands in its class."""
    body = Forward(steps, inputs, outputs, modules)
    lines = signature("forward", list(inputs.values()))
    for text, layers in body.lines:
        line = f"        {text}"
        lines += wrapped(commented(line, layers) if has_comments else line)
    return lines


IMPORT_FUNCTIONAL = "from torch.nn import functional as F\n"
FUNCTIONAL = re.compile(r"\bF\.")
MATH = re.compile(r"\bmath\.")


@dataclass(frozen=True, slots=True)
class Text:
    """A net as source.

    Attributes:
        text: The file.
        entry: Name of the class that is the net.
        arguments: Name of the argument of ``forward`` for each input of the net.
        state: The arrays by name.
    """

    text: str
    entry: str
    arguments: dict[str, str]
    state: dict[str, np.ndarray]


def write_source(graph: Graph, *, title: str) -> Text:
    """Return a net, in the form in which it predicts, as Python.

    Args:
        graph: The net; BatchNorm's scales are taken into it where they follow (``absorb_scales``).
        title: Name of the net, for its class and docstring.

    Raises:
        UnsupportedError: It has operators for which no form in PyTorch is known.
    """
    return _Writer(graph, title).written()


class _Writer:
    def __init__(self, graph: Graph, title: str) -> None:
        self._graph = graph
        self._entry = class_name(title)
        self._steps = steps_of(graph)
        self._outputs = [value.name or "" for value in graph.outputs]
        names = Names({"self", "torch", "nn", "F", "math", *sources()})
        self._arguments = {
            value.name or "": names.free(value.name or "", fallback="data") for value in graph.inputs
        }
        if len(self._arguments) == 1:
            self._arguments = dict.fromkeys(self._arguments, "x")
        self._defaults = _conv_norm_defaults(self._steps)
        self._class_names = Names({self._entry, CONV_NORM_TYPE, "Path"})
        self._block_names: Counter[str] = Counter()
        self._kinds: dict[int, tuple[str, list[str]]] = {}
        self.state: dict[str, np.ndarray] = {}

    def written(self) -> Text:
        parts = parts_of(self._steps, list(self._arguments), self._outputs)
        blocks = [part for part in parts if isinstance(part, Block)]
        self._block_names = Counter(block_name(block.steps) for block in blocks)
        classes = list(dict.fromkeys(block.kind for block in blocks))
        texts = [self._class(kind) for kind in classes]
        net = self._net(parts)
        if self._defaults:
            texts.insert(0, CONV_NORM.format_map({key: literal(v) for key, v in self._defaults.items()}))
        form = CHANNELS_LAST if self._has_images() else ""
        body = [*texts, net, LOAD.format(name=self._entry, form=form)]
        body = [*used_sources("".join(body)), *body]
        text = "\n\n".join([self._head(), *body])
        if any(MATH.search(part) for part in body):
            text = text.replace("import json\n", "import json\nimport math\n", 1)
        if not any(FUNCTIONAL.search(part) for part in body):
            text = text.replace(IMPORT_FUNCTIONAL, "", 1)
        return Text(text, self._entry, self._arguments, self.state)

    def _has_images(self) -> bool:
        """Return whether there are filters of two spatial axes, and none of three."""
        kinds = {step.module.type for step in self._steps if step.module}
        flat = {"nn.Conv2d", "nn.ConvTranspose2d", CONV_NORM_TYPE}
        return bool(kinds & flat) and all(array.ndim != 5 for array in self.state.values())

    def _block_name(self, block: Block) -> str:
        """Return the source's name of a block; none where it is that of others as well."""
        name = block_name(block.steps)
        return name if self._block_names[name] == 1 else ""

    def _head(self) -> str:
        shapes = [
            ", ".join("N" if size is None else str(size) for size in known_shape(value) or ())
            for value in self._graph.inputs
        ]
        sizes = "; ".join(
            f"{argument} [{shape}]" for argument, shape in zip(self._arguments.values(), shapes, strict=True)
        )
        origin = fill(
            f"From {file_name(self._graph)}, whose names of layers are in the comments. Takes {sizes}.", WIDTH
        )
        return (
            f'"""{self._entry} in PyTorch, written by Netweave.\n\n'
            f'{origin}\n"""\n\n'
            "import json\nfrom pathlib import Path\n\n"
            f"import torch\nfrom torch import nn\n{IMPORT_FUNCTIONAL}"
        )

    def _class(self, kind: BlockClass) -> str:
        steps = kind.steps
        members = member_names([block.steps for block in kind.blocks])
        arguments = self._argument_names(kind, members)
        names = [each for block in kind.blocks if (each := self._block_name(block))]
        name = self._class_names.free(_class_stem(names), fallback="Block").replace("_", "")
        self._kinds[id(kind)] = name, members
        lines = [f"class {name}(nn.Module):"]
        count = len(kind.blocks)
        lines += [f'    """{commented_names(names) or f"{count} parts of the net"}."""', ""]
        lines += signature("__init__", arguments)
        lines += ["        super().__init__()"]
        for number, (step, member) in enumerate(zip(steps, members, strict=True)):
            if step.module:
                call = constructor(step.module, kind.given(number, arguments), self._defaults_of(step))
                lines += wrapped(f"        self.{member} = {call}")
        modules = {number: f"self.{member}" for number, member in enumerate(members) if member}
        entry = kind.blocks[0].entry
        body = forward_lines(steps, {entry: "x"}, [kind.blocks[0].exit], modules, has_comments=False)
        return "\n".join([*lines, "", *body]) + "\n"

    def _argument_names(self, kind: BlockClass, members: Sequence[str]) -> list[str]:
        names = Names(TAKEN)
        arguments: list[str] = []
        several = Counter(name for _, name in {(c, n) for (_, n), c in kind.uses.items()})
        last = max((number for number, step in enumerate(kind.steps) if step.module), default=0)
        for column in range(len(kind.columns)):
            places = [place for place, used in kind.uses.items() if used == column]
            number, field = places[0]
            wanted = field
            if (last, "out_channels") in places:
                wanted = "out_channels"
            elif (0, "in_channels") in places:
                wanted = "in_channels"
            elif several[field] > 1 or field.endswith("channels"):
                wanted = f"{members[number]}_{'channels' if field.endswith('channels') else field}"
            arguments.append(names.free(wanted))
        return arguments

    def _net(self, parts: Sequence[Step | Block]) -> str:
        lines = [f"class {self._entry}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        names = Names(TAKEN)
        steps: list[Step] = []
        modules: dict[int, str] = {}
        for group in _groups(parts):
            if isinstance(group, Step):
                if group.module:
                    attribute = names.free(group.name, fallback=kind_name(group))
                    made = constructor(group.module, {}, self._defaults_of(group))
                    layers = [] if group.layers == (attribute,) else group.layers
                    lines += wrapped(commented(f"        self.{attribute} = {made}", layers))
                    modules[len(steps)] = f"self.{attribute}"
                    self._keep(group, attribute)
                steps.append(group)
            else:
                wanted = [self._block_name(block) for block in group]
                attribute = names.free(stem_of(wanted) or "stage", fallback="stage")
                lines += self._group_lines(group, attribute)
                modules[len(steps)] = f"self.{attribute}"
                steps.append(Step(attribute, (), "{m}({0})", (group[0].entry,), (group[-1].exit,)))
        body = forward_lines(steps, self._arguments, self._outputs, modules, has_comments=True)
        return "\n".join([*lines, "", *body]) + "\n"

    def _group_lines(self, group: Sequence[Block], attribute: str) -> list[str]:
        layers = [layer for block in group for step in block.steps for layer in step.layers]
        span = [f"{layers[0]} to {layers[-1]}"] if layers else []
        for number, block in enumerate(group):
            _, members = self._kinds[id(block.kind)]
            prefix = attribute if len(group) == 1 else f"{attribute}.{number}"
            for step, member in zip(block.steps, members, strict=True):
                self._keep(step, f"{prefix}.{member}")
        if len(group) == 1:
            return wrapped(commented(f"        self.{attribute} = {self._made(group[0])}", span))
        lines = [commented(f"        self.{attribute} = nn.Sequential(", span)]
        for run in _runs(group):
            is_pair = len(run) == 2 and _varying(run)
            made = [self._made(block) for block in run] if is_pair else [self._run(run)]
            lines += [f"            {each}," for each in made]
        return [*lines, "        )"]

    def _run(self, run: Sequence[Block]) -> str:
        if len(run) == 1:
            return self._made(run[0])
        name, _ = self._kinds[id(run[0].kind)]
        varying = _varying(run)
        if not varying:
            return f"*({self._made(run[0])} for _ in range({len(run)}))"
        (column,) = varying
        values = [block.arguments[column] for block in run]
        given = ["n" if at == column else literal(value) for at, value in enumerate(run[0].arguments)]
        return f"*({name}({', '.join(given)}) for n in {_sequence(values)})"

    def _made(self, block: Block) -> str:
        name, _ = self._kinds[id(block.kind)]
        return f"{name}({', '.join(map(literal, block.arguments))})"

    def _defaults_of(self, step: Step) -> dict[str, Any]:
        return self._defaults if step.module and step.module.type == CONV_NORM_TYPE else {}

    def _keep(self, step: Step, path: str) -> None:
        if step.module is None:
            return
        for name, array in step.module.state.items():
            self.state[f"{path}.{name}" if name else path] = np.asarray(array(), order="C")
            if name.endswith("running_var"):
                counter = f"{path}.{name.removesuffix('running_var')}num_batches_tracked"
                self.state[counter] = np.zeros((), np.int64)


MOST_NAMES = 4
"""Names of blocks that are all said in the text of their class."""


def commented_names(names: Sequence[str]) -> str:
    """Return names of blocks in a few words, as many as fit into a line."""
    shown = [printable(name) for name in names]
    for count in range(len(shown) if len(shown) <= MOST_NAMES else MOST_NAMES - 1, 0, -1):
        more = f" and {len(shown) - count} more" if count < len(shown) else ""
        words = f"{', '.join(shown[:count])}{more}"
        if len(words) <= WIDTH - len('    """."""'):
            return words
    return ""


def _class_stem(names: Sequence[str]) -> str:
    stem = "".join(c for c in stem_of(names) if not c.isdigit())
    return class_name(stem) if len(stem.strip("_/.-")) > 3 else "Block"


def _conv_norm_defaults(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the eps and momentum that most of the convolutions with normalisation have."""
    settings = [
        tuple(field.value for field in step.module.fields[-2:])
        for step in steps
        if step.module and step.module.type == CONV_NORM_TYPE
    ]
    if not settings:
        return {}
    eps, momentum = Counter(settings).most_common(1)[0][0]
    return {"eps": eps, "momentum": momentum}


def _varying(run: Sequence[Block]) -> list[int]:
    """Return the arguments that differ among blocks of one class."""
    return [
        column
        for column in range(len(run[0].arguments))
        if len({repr(block.arguments[column]) for block in run}) > 1
    ]


def _runs(group: Sequence[Block]) -> list[list[Block]]:
    """Return blocks that follow one another and differ in one argument at most, put together."""
    runs: list[list[Block]] = []
    for block in group:
        if runs and runs[-1][-1].kind is block.kind and _is_series([*runs[-1], block]):
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def _is_series(run: Sequence[Block]) -> bool:
    """Return whether blocks are equal, or one argument alone differs and goes up in equal steps."""
    varying = _varying(run)
    if len(varying) != 1:
        return not varying
    values = [block.arguments[varying[0]] for block in run]
    return all(isinstance(value, int) for value in values) and len(set(np.diff(values))) == 1


def _sequence(values: Sequence[int]) -> str:
    step = values[1] - values[0]
    return f"range({values[0]}, {values[-1] + step}, {step})"


def _groups(parts: Sequence[Step | Block]) -> list[Step | list[Block]]:
    """Return the parts with blocks that make a stage together: one that begins it, and its repetitions."""
    groups: list[Step | list[Block]] = []
    for part in parts:
        if isinstance(part, Step):
            groups.append(part)
            continue
        before = groups[-1] if groups and isinstance(groups[-1], list) else None
        if before and before[-1].exit == part.entry and _continues(before, part):
            before.append(part)
        else:
            groups.append([part])
    return groups


def _continues(group: Sequence[Block], block: Block) -> bool:
    """Return whether a block belongs to the stage before it.

    It does if it repeats the last block of the stage, or is the first repetition.
    """
    last = group[-1]
    if last.kind is block.kind:
        return _is_series([*_runs(group)[-1], block])
    return len(group) == 1 and len(block.kind.blocks) > len(last.kind.blocks)


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write ``NAME.py``, and ``NAME.safetensors`` beside it.

    The net is written as it predicts: without dropout, losses and labels.
    """
    require_weights(graph, random_weights=random_weights)
    plain = chain(
        to_inference, see_through, absorb_scales, fuse_layer_norm, fuse_gelu, fuse_attention, prune
    )(graph)
    source = write_source(plain, title=path.stem)
    with replacing_files(path) as folder:
        (folder / path.name).write_text(source.text)
        _save(source.state, folder / f"{path.stem}.safetensors")
    return OutputFiles(path, path.with_suffix(".safetensors"), source.entry, source.arguments)


def _save(state: dict[str, np.ndarray], path: Path) -> None:
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise UnsupportedError(
            f"weights are written as safetensors, which is not installed: {install_command('torch')}"
        ) from error
    save_file(state, path)
