"""Branches that compute a grouped convolution, and those that compute something else."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.graph import GraphBuilder, Layer
from netweave.graph.passes import fold, join_branches
from tests.graph.passes.nets import weight
from tests.oracles import recipe


def op_types(graph):
    return [node.op_type for node in graph.nodes]


def cut(builder, x, groups, channels, *, slices):
    size = channels // groups
    if not slices:
        return builder.add_many(
            "Split", [x], {"axis": 1, "num_outputs": groups}, outputs=[f"piece{i}" for i in range(groups)]
        )

    def bounds(*numbers):
        return builder.constant(list(numbers), dtype=np.int64)

    return [
        builder.add("Slice", [x, bounds(0, i * size), bounds(1 << 40, (i + 1) * size), bounds(3, 1)])
        for i in range(groups)
    ]


def net(
    groups,
    *,
    behind=(),
    slices=False,
    op_type="Conv",
    bias=True,
    order=None,
    pads=((1, 1, 0, 0),),
    tapped=False,
):
    """Branches of one convolution each, with what is in ``behind`` after it."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("data", (2, 4 * groups, 6, 5))
    ends = []
    for i, piece in enumerate(cut(builder, x, groups, 4 * groups, slices=slices)):
        with builder.layer(Layer(f"branch{i}", f"branch{i}", "conv")):
            shape = (6, 4, 3, 3) if op_type == "Conv" else (4, 6, 3, 3)
            arrays = [weight(builder, f"w{i}", shape)]
            arrays += [weight(builder, f"b{i}", (6,))] if bias else []
            y = builder.add(op_type, [piece, *arrays], {"strides": [2, 2], "pads": pads[i % len(pads)]})
            for number, make in enumerate(behind):
                y = make(builder, y, f"{number} {i}")
            ends.append(y)
    y = builder.add("Concat", [ends[i] for i in order or range(groups)], {"axis": 1}, outputs="joined")
    return builder.finish([builder.add("Softmax", [y], {"axis": 1}, outputs="y"), *ends[: int(tapped)]])


def relu(builder, x, name):
    return builder.add("Relu", [x])


def added(builder, x, name):
    return builder.add("Add", [weight(builder, f"a{name}", (1, 6, 1, 1)), x])


def shared(builder, x, name):
    return builder.add("Mul", [x, builder.constant(0.5, dtype=np.float32)])


def own(builder, x, name):
    return builder.add("Mul", [x, builder.constant(0.5 + int(name[-1]), dtype=np.float32)])


def normalised(builder, x, name):
    arrays = [weight(builder, f"{what}{name}", (6,)) for what in ("scale", "shift", "mean")]
    return builder.add("BatchNormalization", [x, *arrays, builder.constant([1.5] * 6, dtype=np.float32)])


def sloped(builder, x, name):
    return builder.add("PRelu", [x, weight(builder, f"p{name}", (6, 1, 1))])


def pooled(builder, x, name):
    return builder.add("MaxPool", [x], {"kernel_shape": [2, 2]})


def centred(builder, x, name):
    return builder.add("LRN", [x], {"size": 3})


def agree(a, b):
    image = {"data": recipe.uniform("image", (2, *a.inputs[0].shape[1:]))}
    found = [netweave.run(graph, image)["y"] for graph in (a, b)]
    assert np.abs(found[0]).max() > 0.01
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("slices", [False, True])
@pytest.mark.parametrize(
    "behind", [(), (relu,), (added, relu), (shared,), (normalised, sloped), (added, pooled, relu)]
)
def test_alike_branches_are_one_grouped_convolution(groups, op_type, slices, behind):
    given = net(groups, behind=behind, slices=slices, op_type=op_type, bias=added not in behind)
    joined = fold(join_branches(given))
    count = len(op_types(joined))
    assert count == 2 + len(behind), op_types(joined)
    first = joined.nodes[0]
    assert (first.op_type, first.attributes["group"].as_int()) == (op_type, groups)
    assert [layer.name for layer in joined.layers_of(first)] == [f"branch{i}" for i in range(groups)]
    agree(given, joined)


@pytest.mark.parametrize(
    "changed",
    [
        {"order": [1, 0]},
        {"order": [0, 0]},
        {"pads": ((1, 1, 0, 0), (0, 0, 1, 1))},
        {"behind": (own,)},
        {"behind": (centred,)},
        {"tapped": True},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_other_branches_stay(changed):
    given = net(2, **changed)
    assert op_types(join_branches(given)) == op_types(given)


def test_a_piece_that_others_read_stays_for_them():
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("data", (1, 8, 5, 5))
    pieces = cut(builder, x, 2, 8, slices=False)
    ends = [
        builder.add("Conv", [piece, weight(builder, f"w{i}", (3, 4, 3, 3))]) for i, piece in enumerate(pieces)
    ]
    y = builder.add("Concat", ends, {"axis": 1})
    given = builder.finish(
        [builder.add("ReduceMean", [y], outputs="y"), builder.add("Relu", [pieces[0]], outputs="z")]
    )
    joined = join_branches(given)
    assert sorted(op_types(fold(joined))) == ["Conv", "ReduceMean", "Relu", "Split"]
    agree(given, joined)
