"""Operators that move elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.pytorch.source.operators.weighted import pad_argument
from netweave.formats.pytorch.source.table import Call, written

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step


@written("Concat")
def concat(call: Call) -> Step:
    """After one another along an axis."""
    numbers = range(call.num_inputs)
    if any(call.is_stored(index) for index in numbers):
        raise Refused("one of its inputs is stored")
    places = ", ".join(f"{{{index}}}" for index in numbers)
    return call.step(f"torch.cat([{places}], {call.get('axis')})", inputs=list(numbers))


@written("Split")
def split(call: Call) -> Step:
    """Cut along an axis."""
    axis = call.get("axis", 0)
    count = len(call.node.outputs)
    if call.has(1):
        sizes = call.wholes(1)
        text = number(sizes[0]) if len(set(sizes)) == 1 else repr(sizes)
        return call.step(f"torch.split({{0}}, {text}, {axis})", num_outputs=count)
    return call.step(f"torch.chunk({{0}}, {count}, {axis})", num_outputs=count)


@written("Flatten")
def flatten(call: Call) -> Step:
    """All axes from one on as one."""
    axis = call.get("axis", 1)
    if axis != 1:
        raise Refused(f"flattening from axis {axis} on is not written")
    return call.step("torch.flatten({0}, 1)")


@written("Reshape")
def reshape(call: Call) -> Step:
    """Other sizes; where the first one stays, it is the batch."""
    sizes = call.wholes(1)
    if call.get("allowzero", 0):
        raise Refused("allowzero is not written")
    known = call.shape(0)
    shown: list[str] = []
    for axis, size in enumerate(sizes):
        kept = known[axis] if size == 0 and axis < len(known) else size
        shown.append(f"{{0}}.shape[{axis}]" if kept is None else str(kept))
    if any("shape" in text for text in shown) and "-1" not in shown and shown[0].startswith("{0}"):
        shown[0] = "-1"
    if sizes[1:] == [-1] and shown[0].startswith("{0}"):
        return call.step("torch.flatten({0}, 1)")
    return call.step(f"{{0}}.reshape({', '.join(shown)})")


@written("Transpose")
def transpose(call: Call) -> Step:
    """Axes in another order."""
    perm = call.get("perm") or list(range(call.rank(0)))[::-1]
    return call.step(f"{{0}}.permute({', '.join(map(str, perm))})")


@written("Squeeze")
def squeeze(call: Call) -> Step:
    """Without axes of size 1."""
    axes = call.wholes(1) if call.has(1) else [a for a, size in enumerate(call.shape(0)) if size == 1]
    return call.step(f"{{0}}.squeeze({axes[0] if len(axes) == 1 else tuple(axes)})")


@written("Unsqueeze")
def unsqueeze(call: Call) -> Step:
    """With new axes of size 1."""
    text = "{0}" + "".join(f".unsqueeze({axis})" for axis in sorted(call.wholes(1)))
    return call.step(text)


@written("Slice")
def slice_(call: Call) -> Step:
    """A part along some axes."""
    starts, ends = call.wholes(1), call.wholes(2)
    axes = call.wholes(3) if call.has(3) else list(range(len(starts)))
    steps = call.wholes(4) if call.has(4) else [1] * len(starts)
    rank = call.rank(0)
    parts = [":"] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            raise Refused("a step back is not written")
        first = str(start) if start else ""
        last = str(end) if abs(end) < 1 << 31 else ""
        parts[axis % rank] = f"{first}:{last}" + (f":{step}" if step > 1 else "")
    while len(parts) > 1 and parts[-1] == ":":
        parts.pop()
    return call.step(f"{{0}}[{', '.join(parts)}]")


@written("Pad")
def pad(call: Call) -> Step:
    """Elements put around."""
    mode = call.get("mode", "constant")
    modes = {"constant": "", "reflect": ', mode="reflect"', "edge": ', mode="replicate"'}
    if mode not in modes or (call.has(3) and call.wholes(3) != list(range(call.rank(0)))):
        raise Refused(f"padding in the mode {mode!r} over some axes is not written")
    pads, rank = call.wholes(1), call.rank(0)
    begin, end = pads[:rank], pads[rank:]
    while len(begin) > 1 and begin[0] == end[0] == 0 and (mode == "constant" or len(begin) > rank - 2):
        begin, end = begin[1:], end[1:]
    value = call.constant(2).reshape(-1)[0] if mode == "constant" and call.has(2) else 0
    shown = f", value={number(value)}" if value else ""
    return call.step(f"F.pad({{0}}, {pad_argument(begin, end)}{modes[mode]}{shown})")


@written("Resize")
def resize(call: Call) -> Step:
    """Larger or smaller images: nearest by whole factors, or linear, with half pixels or aligned corners."""
    mode, rule = call.get("mode", "nearest"), call.get("coordinate_transformation_mode", "half_pixel")
    if call.has(3) and call.is_stored(3):
        sizes = call.wholes(3)[2:]
        text = f"size={tuple(sizes)}"
        factors: list[float] = []
    elif call.has(2) and call.is_stored(2):
        factors = [float(factor) for factor in call.constant(2)[2:]]
        text = f"scale_factor={number(factors[0]) if len(set(factors)) == 1 else tuple(factors)}"
    else:
        raise Refused("its size is computed")
    if mode == "nearest":
        if not factors or any(factor != int(factor) for factor in factors):
            raise Refused("nearest by no whole factor is not written")
        return call.step(f"F.interpolate({{0}}, {text})")
    if (
        mode != "linear"
        or call.rank(0) != 4
        or rule not in {"half_pixel", "pytorch_half_pixel", "align_corners"}
    ):
        raise Refused(f"resizing by {mode} with {rule} is not written")
    aligned = rule == "align_corners"
    return call.step(f'F.interpolate({{0}}, {text}, mode="bilinear", align_corners={aligned})')


@written("DepthToSpace")
def depth_to_space(call: Call) -> Step:
    """Channels to blocks; PyTorch has the order CRD, the other one is brought into it."""
    block = call.get("blocksize")
    if call.get("mode", "DCR") == "CRD":
        return call.step(f"F.pixel_shuffle({{0}}, {block})")
    ordered = f"{{0}}.unflatten(1, ({block * block}, -1)).transpose(1, 2).flatten(1, 2)"
    return call.step(f"F.pixel_shuffle({ordered}, {block})")


@written("SpaceToDepth")
def space_to_depth(call: Call) -> Step:
    """Blocks to channels, the place within the block first."""
    block = call.get("blocksize")
    unshuffled = f"F.pixel_unshuffle({{0}}, {block})"
    return call.step(f"{unshuffled}.unflatten(1, (-1, {block * block})).transpose(1, 2).flatten(1, 2)")


@written("Tile")
def tile(call: Call) -> Step:
    """Several times after one another along each axis."""
    return call.step(f"{{0}}.repeat({', '.join(map(str, call.wholes(1)))})")


@written("Expand")
def expand(call: Call) -> Step:
    """Sizes of 1 made larger."""
    sizes = call.wholes(1)
    shown = [-1 if size == 1 and len(sizes) <= call.rank(0) else size for size in sizes]
    return call.step(f"{{0}}.expand({', '.join(map(str, shown))})")


@written("Gather")
def gather(call: Call) -> Step:
    """Rows of a stored table, by whole numbers."""
    from netweave.files.source_code.steps import Field, Module

    if call.is_stored(0) and call.get("axis", 0) == 0 and call.rank(0) == 2:
        rows, columns = call.shape(0)
        fields = (Field("num_embeddings", rows), Field("embedding_dim", columns))
        module = Module("nn.Embedding", fields, {"weight": call.lazily(0)})
        return call.step("{m}({0}.long())", inputs=(1,), module=module)
    if call.is_stored(1) and call.constant(1).ndim == 0:
        return call.step(f"{{0}}.select({call.get('axis', 0)}, {int(call.constant(1))})")
    raise Refused("only rows of a stored table are written")
