"""One step of a recurrent net: its layers once, with the states of its GRUs as inputs and outputs.

The net of training is unrolled, so that it reads a number of characters that is fixed. To read one after the
other, the same layers are written without their copies, from the same stored arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.errors import ReadError, ShapeError, UnsupportedError, WeightError
from netweave.files import Source
from netweave.formats.singa.checkpoint import read_checkpoints
from netweave.formats.singa.context import Output
from netweave.formats.singa.files import parse_job
from netweave.formats.singa.inputs import INPUTS
from netweave.formats.singa.net import NetMaker, builder_of, refuse_unknown
from netweave.formats.singa.parameters import Parameters
from netweave.formats.singa.paths import root_of
from netweave.formats.singa.phases import included
from netweave.formats.singa.unroll import unroll
from netweave.graph.wording import names_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.files.protobuf import Message
    from netweave.formats.singa.unroll import Unit
    from netweave.graph import Graph, GraphBuilder

_CHARACTERS = ("kCharRNN", "kRNNDummy")
"""Types of layers that give the numbers of characters: of a text, or from the step before."""

_LOSSES = ("kSoftmaxLoss", "kCudnnSoftmaxLoss")

_SOFTMAX = ("kSoftmax", "kCudnnSoftmax")

_OWN_STEP = {"kUnrollOneToOne", "kUnrollOneToAll"}

_UNROLLING = ("unroll_len", "unroll_index", "unroll_conn_type", "shift")


@dataclass(frozen=True, slots=True)
class State:
    """The state of a recurrent layer: an input of the step and an output of it."""

    input: str
    output: str
    size: int


@dataclass(frozen=True, slots=True)
class StepNet:
    """A net that reads one character and scores the next.

    Attributes:
        graph: The net.
        character: Name of the input: numbers of characters, [records].
        scores: Name of the output: the scores of all characters before the softmax, [records, characters].
        states: What is carried from step to step.
    """

    graph: Graph
    character: str
    scores: str
    states: tuple[State, ...]


class RecurrentJob:
    """The net of characters in a ``job.conf``, or in a file for sampling such as SINGA's ``sample.conf``.

    Args:
        path: The file.

    Raises:
        ReadError: It cannot be read, has no such net, or does not name its vocabulary.
        UnsupportedError: A layer reads other steps than a GRU does.

    Attributes:
        vocabulary: The file of the characters in the order of their numbers.
    """

    def __init__(self, path: Path) -> None:
        self._job, self._place = parse_job(path), str(path)
        # the net is that of training, but read as in tests, where nothing is dropped
        self._source = Source(path, phase="TEST")
        self._layers = included(self._job["neuralnet"]["layer"], "TRAIN", place=self._place)
        refuse_unknown(self._layers, self._place)
        self._scores = _scores_of(self._layers, self._place)
        self.vocabulary = root_of(self._job, path) / self._vocabulary_name()

    def step(self, weights: Path, num_characters: int) -> StepNet:
        """Return the net of one step.

        Args:
            weights: A checkpoint, or several with commas between.
            num_characters: Length of the vocabulary, which a kOneHot without 'vocab_size' takes.

        Raises:
            ReadError: A layer is wrong.
            WeightError: The checkpoint lacks arrays of the net, or has them in other sizes.
            ShapeError: The net scores another number of characters than there are.
        """
        units = self._units(num_characters)
        stored = read_checkpoints(weights)
        builder = builder_of(self._job, self._source, stored)
        parameters = Parameters(builder, self._layers, stored, place=self._place)
        maker = NetMaker(builder, parameters, self._source, units, None)
        maker.made[units[0].name] = Output([builder.input(units[0].name, (None,))])
        states = [_make(maker, builder, unit) for unit in units[1:]]
        parameters.finish()
        carried = tuple(state for state in states if state is not None)
        values = [maker.made[name].values[0] for name in (self._scores, *(one.output for one in carried))]
        graph = builder.finish(values)
        missing = [key for key, parameter in graph.parameters.items() if not parameter.loaded]
        if missing:
            raise WeightError(
                f"has no {names_text(missing)} of {self._place}; give the checkpoint of this net's training",
                place=stored.file,
            )
        found = values[0].shape[-1] if values[0].shape is not None else None
        if found != num_characters:
            raise ShapeError(
                f"layer {self._scores!r} scores {found} characters, but {self.vocabulary} has "
                f"{num_characters}",
                place=self._place,
            )
        return StepNet(graph, units[0].name, self._scores, carried)

    def _vocabulary_name(self) -> str:
        for layer in self._layers:
            if layer["char_rnn_conf"]["vocab_path"]:
                name: str = layer["char_rnn_conf"]["vocab_path"]
                return name
        raise ReadError("no layer has a 'vocab_path' in its 'char_rnn_conf'", place=self._place)

    def _units(self, num_characters: int) -> list[Unit]:
        """Return the layers that the scores depend on, the input first; each GRU reads its state too."""
        for layer in self._layers:
            _check_steps(layer, self._place)
            for name in _UNROLLING:
                layer.drop(name)
            if layer["type"] == "kOneHot" and layer["onehot_conf"]["vocab_size"] == 0:
                settings = (
                    layer["onehot_conf"] if "onehot_conf" in layer else layer.empty("onehot_conf", layer.line)
                )
                settings.put("vocab_size", num_characters, settings.line)
                layer.put("onehot_conf", settings, settings.line)
        units = unroll(self._layers, default=1, of=self._layers, place=self._place)
        by_name = {unit.name: unit for unit in units}
        needed, waiting = set[str](), [self._scores]
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                waiting += by_name[name].sources
        kept = [unit for unit in units if unit.name in needed]
        inputs = [unit for unit in kept if not unit.sources]
        if len(inputs) != 1 or inputs[0].spec["type"] not in _CHARACTERS:
            listed = names_text([unit.name for unit in inputs])
            raise ReadError(
                f"layer {self._scores!r} depends on the inputs {listed}, expected one, of type "
                f"{' or '.join(_CHARACTERS)}",
                place=self._place,
            )
        rest = [unit for unit in kept if unit is not inputs[0]]
        return [inputs[0], *(_with_state(unit) for unit in rest)]


def _make(maker: NetMaker, builder: GraphBuilder, unit: Unit) -> State | None:
    """Write a layer; that of a GRU with an input for its state."""
    if unit.spec["type"] != "kGRU":
        maker.make(unit)
        return None
    size = unit.spec["gru_conf"]["dim_hidden"]
    value = builder.input(unit.sources[-1], (None, max(size, 1)))  # the layer refuses sizes below 1
    maker.made[unit.sources[-1]] = Output([value])
    maker.make(unit)
    return State(value.name or "", unit.name, size)


def _with_state(unit: Unit) -> Unit:
    if unit.spec["type"] != "kGRU":
        return unit
    return replace(unit, sources=(*unit.sources, f"{unit.name}/state"))


def _check_steps(layer: Message, place: str) -> None:
    """Check that a layer reads its sources at its own step only.

    Raises:
        UnsupportedError: It reads another step.
    """
    shifted = any(layer["shift"])
    elsewhere = [kind for kind in layer["unroll_conn_type"] if kind not in _OWN_STEP]
    if shifted or elsewhere:
        name = "shift" if shifted else "unroll_conn_type"
        raise UnsupportedError(
            f"layer {layer['name']!r} reads other steps by '{name}'; text can be sampled where only a kGRU "
            "carries a state",
            place=f"{place}:{layer.line_of(name)}",
        )


def _scores_of(layers: Sequence[Message], place: str) -> str:
    """Return the name of the layer that scores characters: what the loss or the softmax of sampling reads."""
    by_name: Mapping[str, Message] = {layer["name"]: layer for layer in layers}
    ends = [layer for layer in layers if layer["type"] in {*_LOSSES, "kCharRNNOutput"} and layer["srclayers"]]
    if len(ends) != 1:
        raise ReadError(
            f"has {len(ends)} layers of type {', '.join(_LOSSES)} or kCharRNNOutput, expected one; "
            "characters are sampled from what it reads",
            place=place,
        )
    name: str = ends[0]["srclayers"][0]
    if ends[0]["type"] == "kCharRNNOutput":
        for kinds in (("kArgSort",), _SOFTMAX):
            if name in by_name and by_name[name]["type"] in kinds and by_name[name]["srclayers"]:
                name = by_name[name]["srclayers"][0]
    if name in by_name and by_name[name]["type"] not in INPUTS:
        return name
    what = "is an input" if name in by_name else "is not there"
    raise ReadError(
        f"layer {ends[0]['name']!r} reads {name!r}, which {what}, expected a layer that scores characters",
        place=f"{place}:{ends[0].line_of('srclayers')}",
    )
