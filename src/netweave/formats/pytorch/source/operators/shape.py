"""Operators that move elements."""

from __future__ import annotations

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.forward import Field, Module, Step
from netweave.files.source_code.text import number
from netweave.formats.lowering.nodes.arrays import permutation, slice_ranges
from netweave.formats.pytorch.source.operators.windows import pad_argument
from netweave.formats.pytorch.source.table import PyTorchNode, writes


@writes("Concat")
def concat(node: PyTorchNode) -> Step:
    """After one another along an axis."""
    numbers = range(node.num_inputs)
    stored = {index: module for index in numbers if (module := _repeated(node, index)) is not None}
    if len(stored) > 1 or len(stored) == node.num_inputs:
        raise NotWritable("two of its inputs are stored")
    inputs = [index for index in numbers if index not in stored]
    batch = f"{{0}}.shape[0], {', '.join(['-1'] * (node.rank(0) - 1))}"
    places = [
        f"{{m}}.expand({batch})" if index in stored else f"{{{inputs.index(index)}}}" for index in numbers
    ]
    module = next(iter(stored.values()), None)
    return node.step(f"torch.cat([{', '.join(places)}], {node.get('axis')})", inputs=inputs, module=module)


def _repeated(node: PyTorchNode, index: int) -> Module | None:
    """Return a stored input of one example, repeated for all of them or not; None for a computed one."""
    maker = node.value(index).producer()
    if maker is not None and maker.op_type == "Expand" and not maker.domain:
        expand = node.for_node(maker)
        is_row = expand.is_stored(0) and expand.shape(0) == (1, *node.shape(index)[1:])
        return expand.parameter(0) if is_row else None
    if not node.is_stored(index):
        return None
    if node.stored_shape(index)[:1] != (1,):
        raise NotWritable("one of its inputs is stored")
    return node.parameter(index)


@writes("Split")
def split(node: PyTorchNode) -> Step:
    """Cut along an axis."""
    axis = node.get("axis")
    count = len(node.outputs)
    if node.has(1):
        sizes = node.ints(1)
        text = number(sizes[0]) if len(set(sizes)) == 1 else repr(sizes)
        return node.step(f"torch.split({{0}}, {text}, {axis})", num_outputs=count)
    return node.step(f"torch.chunk({{0}}, {count}, {axis})", num_outputs=count)


@writes("Flatten")
def flatten(node: PyTorchNode) -> Step:
    """All axes from one on as one."""
    axis = node.get("axis")
    if axis != 1:
        raise NotWritable(f"flattening from axis {axis} on is not written")
    return node.step("torch.flatten({0}, 1)")


@writes("Reshape")
def reshape(node: PyTorchNode) -> Step:
    """Other sizes; where the first one stays, it is the batch."""
    sizes = node.ints(1)
    if node.get("allowzero"):
        raise NotWritable("allowzero is not written")
    known = node.shape(0)
    shown: list[str] = []
    for axis, size in enumerate(sizes):
        kept = known[axis] if size == 0 and axis < len(known) else size
        shown.append(f"{{0}}.shape[{axis}]" if kept is None else str(kept))
    if any("shape" in text for text in shown) and "-1" not in shown and shown[0].startswith("{0}"):
        shown[0] = "-1"
    if sizes[1:] == [-1] and shown[0].startswith("{0}"):
        return node.step("torch.flatten({0}, 1)")
    return node.step(f"{{0}}.reshape({', '.join(shown)})")


@writes("Transpose")
def transpose(node: PyTorchNode) -> Step:
    """Axes in another order."""
    return node.step(f"{{0}}.permute({', '.join(map(str, permutation(node)))})")


@writes("Squeeze")
def squeeze(node: PyTorchNode) -> Step:
    """Without axes of size 1."""
    axes = node.ints(1) if node.has(1) else [a for a, size in enumerate(node.shape(0)) if size == 1]
    return node.step(f"{{0}}.squeeze({axes[0] if len(axes) == 1 else tuple(axes)})")


@writes("Unsqueeze")
def unsqueeze(node: PyTorchNode) -> Step:
    """With new axes of size 1."""
    text = "{0}" + "".join(f".unsqueeze({axis})" for axis in sorted(node.ints(1)))
    return node.step(text)


@writes("Slice")
def slice_(node: PyTorchNode) -> Step:
    """A part along some axes."""
    parts = [":"] * node.rank(0)
    for axis, start, end, step in slice_ranges(node):
        first = str(start) if start else ""
        is_whole = abs(end) >= 1 << 31 or end == node.shape(0)[axis]
        last = "" if is_whole else str(end)
        parts[axis] = f"{first}:{last}" + (f":{step}" if step > 1 else "")
    while parts and parts[-1] == ":":
        parts.pop()
    if not parts:
        return node.step("{0}")
    return node.step(f"{{0}}[{', '.join(parts)}]")


@writes("Pad")
def pad(node: PyTorchNode) -> Step:
    """Elements put around."""
    mode = node.get("mode")
    modes = {"constant": "", "reflect": ', mode="reflect"', "edge": ', mode="replicate"'}
    if mode not in modes or (node.has(3) and node.ints(3) != list(range(node.rank(0)))):
        raise NotWritable(f"padding in the mode {mode!r} over some axes is not written")
    pads, rank = node.ints(1), node.rank(0)
    if not any(pads):
        return node.step("{0}")
    begin, end = pads[:rank], pads[rank:]
    while len(begin) > 1 and begin[0] == end[0] == 0 and (mode == "constant" or len(begin) > rank - 2):
        begin, end = begin[1:], end[1:]
    value = node.constant(2).reshape(-1)[0] if mode == "constant" and node.has(2) else 0
    shown = f", value={number(value)}" if value else ""
    return node.step(f"F.pad({{0}}, {pad_argument(begin, end)}{modes[mode]}{shown})")


@writes("Resize")
def resize(node: PyTorchNode) -> Step:
    """Larger or smaller images: nearest by whole factors, or linear, with half pixels or aligned corners."""
    mode, rule = node.get("mode"), node.get("coordinate_transformation_mode")
    if node.has(3) and node.is_stored(3):
        sizes = node.ints(3)[2:]
        text = f"size={tuple(sizes)}"
        factors: list[float] = []
    elif node.has(2) and node.is_stored(2):
        factors = [float(factor) for factor in node.constant(2)[2:]]
        text = f"scale_factor={number(factors[0]) if len(set(factors)) == 1 else tuple(factors)}"
    else:
        raise NotWritable("its size is computed")
    if mode == "nearest":
        if not factors or any(factor != int(factor) for factor in factors):
            raise NotWritable("nearest by no whole factor is not written")
        return node.step(f"F.interpolate({{0}}, {text})")
    if (
        mode != "linear"
        or node.rank(0) != 4
        or rule not in {"half_pixel", "pytorch_half_pixel", "align_corners"}
    ):
        raise NotWritable(f"resizing by {mode} with {rule} is not written")
    aligned = rule == "align_corners"
    return node.step(f'F.interpolate({{0}}, {text}, mode="bilinear", align_corners={aligned})')


@writes("DepthToSpace")
def depth_to_space(node: PyTorchNode) -> Step:
    """Channels to blocks; PyTorch has the order CRD, the other one is brought into it."""
    block = node.get("blocksize")
    if node.get("mode", "DCR") == "CRD":
        return node.step(f"F.pixel_shuffle({{0}}, {block})")
    ordered = f"{{0}}.unflatten(1, ({block * block}, -1)).transpose(1, 2).flatten(1, 2)"
    return node.step(f"F.pixel_shuffle({ordered}, {block})")


@writes("SpaceToDepth")
def space_to_depth(node: PyTorchNode) -> Step:
    """Blocks to channels, the place within the block first."""
    block = node.get("blocksize")
    unshuffled = f"F.pixel_unshuffle({{0}}, {block})"
    return node.step(f"{unshuffled}.unflatten(1, (-1, {block * block})).transpose(1, 2).flatten(1, 2)")


@writes("Tile")
def tile(node: PyTorchNode) -> Step:
    """Several times after one another along each axis."""
    return node.step(f"{{0}}.repeat({', '.join(map(str, node.ints(1)))})")


@writes("Expand")
def expand(node: PyTorchNode) -> Step:
    """Sizes of 1 made larger."""
    sizes = node.ints(1)
    shown = [-1 if size == 1 and len(sizes) <= node.rank(0) else size for size in sizes]
    return node.step(f"{{0}}.expand({', '.join(map(str, shown))})")


@writes("Gather")
def gather(node: PyTorchNode) -> Step:
    """Rows of a stored table, by whole numbers."""
    from netweave.files.source_code.forward import Module

    if node.is_stored(0) and node.get("axis") == 0 and node.rank(0) == 2:
        rows, columns = node.shape(0)
        fields = (Field("num_embeddings", rows), Field("embedding_dim", columns))
        module = Module("nn.Embedding", fields, {"weight": node.lazy_array(0)})
        return node.step("{m}({0}.long())", inputs=(1,), module=module)
    if node.is_stored(1) and node.constant(1).ndim == 0:
        return node.step(f"{{0}}.select({node.get('axis', 0)}, {int(node.constant(1))})")
    raise NotWritable("only rows of a stored table are written")
