"""Parameters and snapshots of Caffe."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, UsageError, WeightError
from netweave.files.hdf5 import HDF5_MAGIC, Member, read_hdf5
from netweave.files.protobuf import Message
from netweave.files.source import read_bytes
from netweave.formats.caffe.file_types import HEAD_BYTES, find_kind
from netweave.formats.caffe.schema import caffe_schema
from netweave.formats.caffe.weights import Weights, read_weights, stored_blob
from netweave.formats.lowering import Layout, ParameterStore
from netweave.formats.lowering.parameters import check_size
from netweave.graph import Graph, GraphBuilder, Layer, Parameter, parameter_key, statistics_of
from netweave.graph.summary import dims_text, names_text
from netweave.installation import install_command

if TYPE_CHECKING:
    from netweave.formats.caffe.context import CaffeLayer


Shape = tuple[int, ...]


class Blobs(ParameterStore):
    """Stored arrays by layer and number, with ``param { name }`` sharing.

    Args:
        builder: Where parameters and initializers go.
        weights: The file of values; without one they are drawn.
        net: Name of the net's file, for errors.
    """

    def __init__(self, builder: GraphBuilder, weights: Weights | None, *, net: str) -> None:
        super().__init__(builder)
        self._weights = weights
        self._net = net
        self._owners: dict[str, str] = {}
        self._misfits: list[str] = []

    def entry(
        self,
        ctx: CaffeLayer,
        index: int,
        shape: Shape,
        role: str,
        filler: Message | None,
        *,
        trainable: bool = True,
    ) -> Parameter:
        """Return the entry of a stored array.

        Raises:
            ShapeError: It would be too large, or is shared with an array of other sizes.
        """
        spec = ctx.spec["param"][index] if index < len(ctx.spec["param"]) else None
        share_name = spec["name"] if spec is not None else ""
        key = f"{ctx.layer.key}/{index}"
        owner = self._owners.setdefault(share_name, key) if share_name else key
        self.note_use(ctx.layer.key, owner)
        if owner != key:
            return self._shared(ctx, index, shape, owner, spec)
        check_size(key, shape, ctx)
        return self.declare(
            key,
            shape,
            role,
            self._find(ctx, index, shape),
            context=ctx,
            filler=filler.to_json() if filler is not None else None,
            lr_mult=_factor(spec, "lr_mult", trainable),
            decay_mult=_factor(spec, "decay_mult", trainable),
            trainable=trainable,
        )

    def value(
        self,
        ctx: CaffeLayer,
        index: int,
        shape: Shape,
        role: str,
        filler: Message | None,
        layout: Layout,
    ) -> ir.Value:
        """Return the initializer made from a stored array; the same one where it is shared."""
        parameter = self.entry(ctx, index, shape, role, filler)
        if parameter.shape != shape:  # shared with other sizes, of the same count
            layout = (("reshape", shape), *layout)
        return self.initializer(parameter.key, layout)

    def is_stored(self, ctx: CaffeLayer) -> bool:
        """Return whether the file of values has arrays of a layer."""
        return bool(self._weights and self._weights.layer(ctx.layer.name))

    def check_count(self, ctx: CaffeLayer) -> None:
        """Note it if the file lacks arrays that a layer owns, or has more than the layer uses."""
        stored = self._weights.layer(ctx.layer.name) if self._weights else None
        if stored is None:
            return
        keys = self.keys(ctx.layer.key)
        owned = {index for index, key in enumerate(keys) if key == f"{ctx.layer.key}/{index}"}
        if not owned <= set(stored) <= set(range(len(keys))):
            self._misfits.append(
                f"layer {ctx.layer.name!r} has {len(keys)} arrays in the net, {len(stored)} in the file"
            )

    def finish(self) -> None:
        """Raise ``WeightError`` with all arrays that do not fit the net."""
        if not self._weights:
            return
        place = self._weights.file
        if self._misfits:
            raise WeightError(
                f"does not match {self._net}: {'; '.join(self._misfits)}. Does it belong to another net? A "
                "layer that was renamed in the net gets no weights",
                place=place,
            )
        if self._arrays and not any(array is not None for array in self._arrays.values()):
            stored = self._weights.names()
            raise WeightError(
                f"contains no weights for any layer of {self._net}: it has {names_text(stored)}, "
                f"the net {names_text([key.rpartition('/')[0] for key in self._arrays])}",
                place=place,
            )

    def _shared(
        self, ctx: CaffeLayer, index: int, shape: Shape, owner: str, spec: Message | None
    ) -> Parameter:
        parameter = self._builder.parameters[owner]
        permissive = spec is not None and spec["share_mode"] == "PERMISSIVE"
        fits = prod(shape) == parameter.size if permissive else shape == parameter.shape
        if not fits:
            raise ctx.shape_error(
                f"its array {index} ({dims_text(shape)}) is shared with {owner} "
                f"({dims_text(parameter.shape)}); "
                + ("they must have as many elements" if permissive else "they must have the same sizes")
            )
        changes = {}
        for name in ("lr_mult", "decay_mult"):
            if spec is not None and name in spec:
                changes[name] = spec[name]
        if changes:
            parameter = replace(parameter, **changes)
            self._builder.parameters[owner] = parameter
        return parameter

    def _find(self, ctx: CaffeLayer, index: int, shape: Shape) -> np.ndarray | None:
        stored = self._weights.layer(ctx.layer.name) if self._weights else None
        if stored is None or index not in stored:
            return None
        blob = stored[index]
        if blob.fits(shape):
            return blob.load().reshape(shape)
        self._misfits.append(
            f"layer {ctx.layer.name!r} ({ctx.layer.origin}): array {index} is {dims_text(shape)} in the net, "
            f"{dims_text(blob.shape)} in the file"
        )
        return None


def _factor(spec: Message | None, name: str, trainable: bool) -> float:
    if not trainable:
        return 0.0
    return float(spec[name]) if spec is not None else 1.0


# Rules: ``Net::ToProto``, ``Net::ToHDF5``, ``SGDSolver::SnapshotSolverState`` and those that read the same.

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class SolverState:
    """The state of a Caffe solver.

    Attributes:
        iteration: Number of updates done.
        learned_net: Name of the file of weights that goes with it.
        history: The arrays that the solver keeps, in its order, float32.
        current_step: Steps that the policy ``multistep`` has taken.
    """

    iteration: int
    learned_net: str
    history: tuple[np.ndarray, ...]
    current_step: int = 0


def parameter_order(graph: Graph) -> list[str]:
    """Return the keys of a net's parameters in the order of Caffe's learnable parameters, each once."""
    layers = graph.layers.values()
    return list(dict.fromkeys(key for layer in layers for key in _ordered(layer)))


def to_sums(graph: Graph, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return arrays as Caffe stores them: the statistics of a BatchNorm times their number."""
    sums = dict(arrays)
    for key, count in _counted(graph).items():
        sums[key] = arrays[key] * arrays[count]
    return sums


def from_sums(graph: Graph, arrays: Arrays) -> dict[str, np.ndarray]:
    """Return arrays that Caffe stored as nets here have them, the other way round."""
    means = dict(arrays)
    for key, count in _counted(graph).items():
        if key in arrays and count in arrays:
            means[key] = arrays[key] / arrays[count] if arrays[count].item() else np.zeros_like(arrays[key])
    return means


def _counted(graph: Graph) -> dict[str, str]:
    """Return the keys of statistics that are stored as sums, with the keys of their numbers."""
    counts: dict[str | None, str] = {}
    for node in graph.nodes:
        count = statistics_of(node).count if node.op_type == "BatchNormalization" else None
        if count is not None:
            counts |= {parameter_key(value): count for value in node.inputs[3:5] if value is not None}
    return {key: count for key, count in counts.items() if key is not None}


def encode_net(graph: Graph, arrays: Arrays, gradients: Arrays | None = None) -> bytes:
    """Return a net with its arrays as the bytes of a ``.caffemodel``.

    Args:
        graph: The net, as it was read from Caffe's files.
        arrays: Its arrays by key, in the source's layout.
        gradients: Likewise, where they are to be written too (``snapshot_diff``).
    """
    arrays = to_sums(graph, arrays)
    layers = [
        _layer(graph, layer)
        | {"blobs": [_blob(arrays[key], (gradients or {}).get(key)) for key in _ordered(layer)]}
        for layer in graph.layers.values()
    ]
    return caffe_schema().encode("NetParameter", {"name": graph.name, "layer": layers})


def encode_net_hdf5(graph: Graph, arrays: Arrays, gradients: Arrays | None = None) -> bytes:
    """Return a net's arrays as the bytes of a ``.caffemodel.h5``; a shared one stands at its owner only.

    Raises:
        UsageError: h5py is not installed.
    """
    arrays = to_sums(graph, arrays)
    content = io.BytesIO()
    with _h5py().File(content, "w") as file:
        for group, found in (("data", arrays), ("diff", gradients)):
            if found is None:
                continue
            for layer in graph.layers.values():
                inside = file.require_group(f"{group}/{layer.name}")
                for index, key in enumerate(_ordered(layer)):
                    if key == f"{layer.key}/{index}" and key in found:
                        inside[str(index)] = np.asarray(found[key], np.float32)
    return content.getvalue()


def encode_state(state: SolverState) -> bytes:
    """Return a solver's state as the bytes of a ``.solverstate``."""
    values = {
        "iter": state.iteration,
        "learned_net": state.learned_net,
        "history": [_blob(array) for array in state.history],
        "current_step": state.current_step,
    }
    return caffe_schema().encode("SolverState", values)


def encode_state_hdf5(state: SolverState) -> bytes:
    """Return a solver's state as the bytes of a ``.solverstate.h5``.

    Raises:
        UsageError: h5py is not installed.
    """
    content = io.BytesIO()
    with _h5py().File(content, "w") as file:
        file["iter"], file["current_step"] = np.int32(state.iteration), np.int32(state.current_step)
        file["learned_net"] = state.learned_net
        history = file.create_group("history")
        for index, array in enumerate(state.history):
            history[str(index)] = np.asarray(array, np.float32)
    return content.getvalue()


def read_state(path: Path) -> SolverState:
    """Read a ``.solverstate`` or ``.solverstate.h5``.

    Raises:
        ReadError: The file cannot be read or is no such state.
        WeightError: An array is not whole.
        UsageError: The file is HDF5 and h5py is not installed.
    """
    place = str(path)
    content = read_bytes(path)
    if content.startswith(HDF5_MAGIC):
        return _read_state_hdf5(content, place)
    kind = find_kind(content[:HEAD_BYTES])
    if kind is None or kind.message != "SolverState":
        raise ReadError("is not a solver state, expected a .solverstate", place=place)
    message = caffe_schema().decode("SolverState", content, place=place)
    history = tuple(
        stored_blob(blob, place=f"{place}: array {index}").load()
        for index, blob in enumerate(message["history"])
    )
    return SolverState(message["iter"], message["learned_net"], history, message["current_step"])


def fitting_arrays(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    """Return what a file of weights has for a net, by key, as the net has it.

    As in Caffe layers go by name; those that the net or the file lacks are left alone.

    Raises:
        ReadError: The file cannot be read or holds no weights.
        WeightError: An array is not whole, or of other sizes than in the net.
    """
    weights = read_weights(path)
    fitting: dict[str, np.ndarray] = {}
    misfits = []
    for key, parameter in graph.parameters.items():
        layer, _, index = key.rpartition("/")
        blob = (weights.layer(layer) or {}).get(int(index))
        if blob is None:
            continue
        if blob.fits(parameter.shape):
            fitting[key] = blob.load().reshape(parameter.shape)
        else:
            misfits.append(
                f"{key} is {dims_text(parameter.shape)} in the net, {dims_text(blob.shape)} in the file"
            )
    if misfits:
        found_all = "; ".join(misfits)
        raise WeightError(
            f"does not fit {graph.name}: {found_all}; a layer that was renamed in the net is skipped",
            place=str(path),
        )
    return from_sums(graph, fitting)


def _read_state_hdf5(content: bytes, place: str) -> SolverState:
    file = read_hdf5(content, place=place)
    history, numbers = file.group("history"), [file.get(name) for name in ("iter", "current_step")]
    iteration, step = (int(found.item()) if _is_one(found) else None for found in numbers)
    if history is None or iteration is None:
        raise ReadError("is not a .solverstate.h5: it has no 'history' or no 'iter'", place=place)
    arrays = [history.get(str(index)) for index in range(len(history.members))]
    if not all(isinstance(array, np.ndarray) for array in arrays):
        raise ReadError("is not a .solverstate.h5: its 'history' is not arrays from '0' on", place=place)
    net = file.get("learned_net")
    values = tuple(np.asarray(array, np.float32) for array in arrays)
    return SolverState(iteration, net if isinstance(net, str) else "", values, step or 0)


def _is_one(found: Member) -> TypeGuard[np.ndarray]:
    """Return whether what a file holds is one whole number."""
    return isinstance(found, np.ndarray) and found.size == 1 and found.dtype.kind in "iu"


def _layer(graph: Graph, layer: Layer) -> dict[str, Any]:
    names = {found.name for found in graph.layers.values()}
    return {
        "name": layer.name,
        "type": layer.type,
        "bottom": [_blob_name(name, names) for name in layer.inputs],
        "top": [_blob_name(name, names) for name in layer.outputs],
        **layer.settings,
    }


def _blob_name(value: str, layers: set[str]) -> str:
    """Return the blob of a value: earlier versions of a blob are named after the layer that wrote them."""
    blob, at, writer = value.rpartition("@")
    return blob if at and writer in layers else value


def _blob(array: np.ndarray, gradient: np.ndarray | None = None) -> dict[str, Any]:
    blob: dict[str, Any] = {"shape": {"dim": list(array.shape)}, "data": array.reshape(-1)}
    return blob if gradient is None else {**blob, "diff": gradient.reshape(-1)}


def _ordered(layer: Layer) -> Sequence[str]:
    """Return the keys of a layer's arrays by number; the reader may have asked for them in another order."""
    own = {key for key in layer.parameters if key.startswith(f"{layer.key}/")}
    return layer.parameters if own != set(layer.parameters) else sorted(layer.parameters, key=_index)


def _index(key: str) -> int:
    return int(key.rpartition("/")[2])


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise UsageError(f"HDF5 needs h5py; install it with: {install_command('hdf5')}") from error
    return h5py
