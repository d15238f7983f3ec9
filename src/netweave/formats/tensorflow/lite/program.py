"""From TFLite's tables to a program of nodes: a body for each subgraph, a node for each operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError
from netweave.files.source import read_bytes
from netweave.formats.tensorflow.attributes import Function
from netweave.formats.tensorflow.lite.schema import OLD_CODES, OPERATORS, SCHEMA
from netweave.formats.tensorflow.lite.tensors import LiteTensor, tensor_of
from netweave.formats.tensorflow.nodes import Body, Node, Program
from netweave.formats.tensorflow.opening import Opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files import Source
    from netweave.files.flatbuffers import Record
    from netweave.formats.tensorflow.nodes import Ref

CUSTOM = "CUSTOM"
"""The operator whose name is in ``custom_code``."""

OPERANDS = "_operands"
"""The attribute of a node with its ``Operands``."""

TENSOR = "_tensor"
"""The attribute of an input, or of what the file stores, with its ``LiteTensor``."""


@dataclass(frozen=True, slots=True, eq=False)
class Operands:
    """Inputs and outputs of an operator, as stored in the file.

    Attributes:
        inputs: The tensors that it reads; None for an optional one that is left out.
        outputs: The tensors that it makes.
    """

    inputs: tuple[LiteTensor | None, ...]
    outputs: tuple[LiteTensor, ...]


def open_net(source: Source) -> Opened:
    """Open a net.

    Raises:
        ReadError: The file cannot be read or is damaged.
    """
    place = str(source.net)
    content = read_bytes(source.net)
    model = SCHEMA.decode("Model", content, place=place)
    if model["version"] != 3:
        raise ReadError(f"has version {model['version']} of the format, expected 3", place=place)
    if not model["subgraphs"]:
        raise ReadError("contains no subgraph", place=place)
    types = [_type_of(code) for code in model["operator_codes"]]
    functions = [
        _Subgraph(record, types, model["buffers"], content, file=place, number=number)
        for number, record in enumerate(model["subgraphs"])
    ]
    main = functions[0]
    signature = next((item for item in model["signature_defs"] if not item["subgraph_index"]), None)
    program = Program(main.body(), {item.name: item.body() for item in functions[1:]}, place)
    inputs = {main.ref(index)[0]: name for name, index in _signed(main, signature, "inputs")}
    outputs = _named_apart([(name, main.ref(index)) for name, index in _signed(main, signature, "outputs")])
    return Opened(program, inputs=inputs, outputs=outputs, files=(place,))


def _signed(main: _Subgraph, signature: Record | None, kind: str) -> list[tuple[str, int]]:
    """Return the names of inputs or outputs, a signature's if there is one, with their tensors."""
    tensors = main.inputs if kind == "inputs" else main.outputs
    if signature is None:
        return [(main.label(index), index) for index in tensors]
    named = [(item["name"], int(item["tensor_index"])) for item in signature[kind]]
    if {index for _, index in named} != set(tensors):
        return [(main.label(index), index) for index in tensors]
    return sorted(named, key=lambda item: tensors.index(item[1]))


def _named_apart(outputs: Sequence[tuple[str, Ref]]) -> dict[str, str]:
    """Return outputs by name as ``node:number``; a name that several have is numbered."""
    named: dict[str, str] = {}
    for name, (node, number) in outputs:
        free, count = name, 1
        while free in named:
            free, count = f"{name}_{count}", count + 1
        named[free] = f"{node}:{number}"
    return named


def _type_of(code: Record) -> str:
    """Return the name of an operator; the number of a newer one did not fit in its first field."""
    old = code["deprecated_builtin_code"]
    number = code["builtin_code"] if old == OLD_CODES else max(old, code["builtin_code"])
    name = OPERATORS.get(number, f"operator {number}")
    return str(code["custom_code"] or CUSTOM) if name == CUSTOM else name


class _Subgraph:
    """The tensors and operators of a subgraph, as nodes.

    Args:
        record: Its table.
        types: Names of the operators that the file has.
        buffers: What the file stores.
        content: The file.
        file: Its name.
        number: Which subgraph it is; the first one is the net.
    """

    def __init__(
        self,
        record: Record,
        types: Sequence[str],
        buffers: Sequence[Record],
        content: bytes,
        *,
        file: str,
        number: int,
    ) -> None:
        self.name = f"subgraph {number}"
        self.file = file
        self.place = file if not number else f"{file}: {self.name}"
        self.is_main = not number
        self.types = types
        self.tensors = [tensor_of(item, buffers, content, place=self.place) for item in record["tensors"]]
        self.inputs = [self._index(index, "input") for index in record["inputs"]]
        self.outputs = [self._index(index, "output") for index in record["outputs"]]
        self.nodes: dict[str, Node] = {}
        self.refs: dict[int, Ref] = {}
        for index in dict.fromkeys(self.inputs):
            self._add_input(index)
        rows = [(item, *self._operands(item, at)) for at, item in enumerate(record["operators"])]
        # all are named before one is made: an operator may stand behind those that read it
        names = [self._name_outputs(item, made, at) for at, (item, _, made) in enumerate(rows)]
        for name, (item, read, made) in zip(names, rows, strict=True):
            self._add_operator(name, item, read, made)

    def body(self) -> Body:
        """Return its nodes."""
        arguments = tuple(self.refs[index][0] for index in self.inputs)
        results = tuple(self.ref(index) for index in self.outputs)
        return Body("" if self.is_main else self.name, self.nodes, () if self.is_main else arguments, results)

    def label(self, index: int) -> str:
        """Return the name of a tensor for people."""
        return self.tensors[index].name or self.ref(index)[0]

    def ref(self, index: int) -> Ref:
        """Return the node that makes a tensor, and which of its outputs it is; a stored one gets its node."""
        if index not in self.refs:
            tensor = self.tensors[index]
            sizes = [size for size in tensor.shape if size is not None]
            array = tensor.array
            if array is None and 0 in sizes and len(sizes) == len(tensor.shape):
                array = np.zeros(sizes, np.float32)
            if array is None:
                raise ReadError(
                    f"tensor {tensor.name!r:.200} is read, but neither stored nor made by an operator",
                    place=self.place,
                )
            name = self._free(tensor.name or f"constant {index}")
            self.nodes[name] = Node(name, "Const", (), {"value": array, TENSOR: tensor})
            self.refs[index] = (name, 0)
        return self.refs[index]

    def _index(self, index: int, noun: str) -> int:
        if not 0 <= index < len(self.tensors):
            raise ReadError(f"has tensor {index} of {len(self.tensors)} as an {noun}", place=self.place)
        return int(index)

    def _free(self, name: str) -> str:
        """Return a free name of a node; a colon is kept for the number of an output (``Opened``)."""
        name = name.replace(":", "_")
        free, count = name, 1
        while free in self.nodes:
            free, count = f"{name}_{count}", count + 1
        return free

    def _add_input(self, index: int) -> None:
        tensor = self.tensors[index]
        name = self._free(tensor.name or f"input {index}")
        attributes = {"dtype": tensor.real_type, "shape": list(tensor.shape), TENSOR: tensor}
        self.nodes[name] = Node(name, "Placeholder", (), attributes)
        self.refs[index] = (name, 0)

    def _operands(self, record: Record, at: int) -> tuple[list[int], list[int]]:
        if record["opcode_index"] >= len(self.types):
            raise ReadError(
                f"operator {at} has type {record['opcode_index']} of {len(self.types)}", place=self.place
            )
        noun = f"operand of operator {at} ({self.types[record['opcode_index']]})"
        inputs = [-1 if index == -1 else self._index(index, noun) for index in record["inputs"]]
        return inputs, [self._index(index, noun) for index in record["outputs"]]

    def _name_outputs(self, record: Record, outputs: Sequence[int], at: int) -> str:
        """Return the name of an operator's node, which its first output gives it, and note what it makes."""
        kind = self.types[record["opcode_index"]]
        label = self.tensors[outputs[0]].name if outputs else ""
        name = self._free(label or f"{kind} {at}")
        self.nodes[name] = Node(name, kind)
        for number, index in enumerate(outputs):
            if index in self.refs:
                raise ReadError(f"tensor {self.tensors[index].name!r:.200} is made twice", place=self.place)
            self.refs[index] = (name, number)
        return name

    def _add_operator(self, name: str, record: Record, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        tensors = Operands(
            tuple(None if index < 0 else self.tensors[index] for index in inputs),
            tuple(self.tensors[index] for index in outputs),
        )
        attributes = {**_settings(record["builtin_options"] or {}), OPERANDS: tensors}
        refs = tuple(self.ref(index) for index in inputs if index >= 0)
        self.nodes[name] = Node(name, self.types[record["opcode_index"]], refs, attributes)


def _settings(options: Record) -> dict[str, Any]:
    """Return an operator's options as Python values; a subgraph that it calls as a function."""
    settings: dict[str, Any] = {}
    for key, value in options.items():
        if key.endswith("subgraph_index") or key == "subgraph":
            settings[key] = Function(f"subgraph {value}")
        else:
            settings[key] = value.tolist() if isinstance(value, np.ndarray) else value
    return settings
