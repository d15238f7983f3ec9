"""Plans of nets that are cut across workers: shardings, connections, and the graph of each worker."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import netweave
from netweave.errors import UnsupportedError
from netweave.graph import known_shape
from netweave.graph.passes.partition import (
    Boxes,
    LayerCut,
    partition_plan,
    require_layers,
    shares,
    worker_graph,
)
from netweave.graph.passes.partition.plan import cut_steps, last_axis
from netweave.graph.passes.partition.shardings import (
    BATCH,
    WHOLE,
    by_feature,
    by_image,
    on_worker,
    tiles,
)

ROWS, CHANNELS, HEIGHT, WIDTH, WORKERS = 7, 10, 5, 4, 3

SHARDINGS = [
    BATCH,
    by_feature([((0, 4),), ((4, 7),), ((7, 10),)]),
    by_feature([((0, 2), (5, 7)), ((2, 5),), ((7, 10),)]),
    on_worker(1),
    on_worker(2),
    by_image(tiles((3, 1), (HEIGHT, WIDTH))),
    by_image(tiles((1, 3), (HEIGHT, WIDTH))),
]
HALOS = by_image([((0, 3), (0, 4)), ((1, 5), (0, 4)), ((2, 5), (1, 3))])
TARGETS = [*SHARDINGS, WHOLE, HALOS, by_feature([((0, 6),), ((2, 9),), ((5, 10),)])]


def held(boxes, worker, array):
    """Return what a worker has of an array, by indexing."""
    (first, last), ranges = boxes.rows[worker], boxes.channels[worker]
    channels = [number for start, stop in ranges for number in range(start, stop)]
    (top, bottom), (left, right) = boxes.places[worker]
    return array[first:last][:, channels][:, :, top:bottom, left:right]


@pytest.mark.parametrize("source", SHARDINGS, ids=str)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_pieces_bring_every_worker_what_it_is_to_have(source, target):
    sizes = (ROWS, CHANNELS, HEIGHT, WIDTH)
    array = np.arange(np.prod(sizes)).reshape(sizes)
    before, after = (Boxes.of(one, sizes, WORKERS) for one in (source, target))
    moved = 0
    for receiver in range(WORKERS):
        made = np.full(after.sizes(receiver), -1)
        for sender in range(WORKERS):
            own = held(before, sender, array)
            for piece in before.pieces(sender, after, receiver):
                given, taken = (
                    tuple(slice(start, start + size) for start, size in zip(corner, piece.sizes, strict=True))
                    for corner in (piece.source, piece.target)
                )
                values = own[given]
                made[taken] = values
                moved += values.size * (sender != receiver)
        np.testing.assert_array_equal(made, held(after, receiver, array))
    assert before.moved(after) == moved
    assert Boxes.from_text(before.to_text()) == before


def test_shares_are_those_of_a_batch():
    from netweave.training.data.order import share_bounds

    for count in range(12):
        assert shares(count, 4) == tuple(share_bounds(count, rank, 4) for rank in range(4))


STEPS = [
    ((6, 50), [("transpose", (1, 0))], 0, 1),
    ((6, 2, 5, 5), [("reshape", (6, 50))], 0, 0),
    ((6, 2, 5, 5), [("reshape", (12, 25))], 0, None),
    ((1, 6), [("reshape", (6,))], 1, 0),
    ((20,), [("ranges", (0, 4))], 0, None),
]


@pytest.mark.parametrize(("shape", "steps", "axis", "last"), STEPS)
def test_an_axis_is_followed_through_a_layout(shape, steps, axis, last):
    assert last_axis(shape, steps, axis) == last
    if last is not None:
        array = np.arange(np.prod(shape)).reshape(shape)
        part = np.take(array, range(1, 3), axis)
        for kind, numbers in steps:
            array = array.transpose(numbers) if kind == "transpose" else array.reshape(numbers)
        for kind, numbers in cut_steps(shape, steps, axis, 2)[1]:
            part = part.transpose(numbers) if kind == "transpose" else part.reshape(numbers)
        np.testing.assert_array_equal(part, np.take(array, range(1, 3), last))


LAYER = 'layer { name: "%s" type: "%s" bottom: "%s" top: "%s" %s }\n'


def net(*layers, folder, sizes=(8, 4, 6, 6)):
    shape = " ".join(f"dim: {size}" for size in sizes)
    text = f'layer {{ name: "in" type: "Input" top: "data" input_param {{ shape {{ {shape} }} }} }}\n'
    bottom = "data"
    for number, (kind, settings) in enumerate(layers):
        text += LAYER % (f"l{number}", kind, bottom, f"l{number}", settings)
        bottom = f"l{number}"
    (folder / "net.prototxt").write_text(text)
    return netweave.load(folder / "net.prototxt")


def conv(count, group=1):
    return (
        "Convolution",
        f"convolution_param {{ num_output: {count} kernel_size: 3 pad: 1 group: {group} }}",
    )


def plan(graph, cuts, workers):
    return partition_plan(graph, cuts, num_workers=workers, num_rows=8)


def edges(found):
    return [(edge.op_type, str(edge.before), str(edge.after), edge.elements) for edge in found.edges.values()]


def test_a_convolution_by_feature_needs_all_of_its_input_and_gives_back_rows(tmp_path):
    graph = net(conv(6), folder=tmp_path)
    found = plan(graph, [LayerCut("l0", 1)], 2)
    # each of 2 workers lacks 4 of 8 images of 4 x 36 numbers; then each sends half of its 3 maps
    assert edges(found) == [
        ("Gather", "batch", "whole", 2 * 4 * 144),
        ("Regroup", "feature", "batch", 2 * 4 * 3 * 36),
    ]
    assert [found.elements_of(worker) for worker in range(2)] == [3 * 4 * 9 + 3] * 2


def test_groups_are_dealt_out_whole_where_there_are_enough(tmp_path):
    found = plan(
        net(conv(8), conv(8, 8), ("ReLU", ""), folder=tmp_path), [LayerCut("l0", 1), LayerCut("l1", 1)], 3
    )
    assert [edge[0] for edge in edges(found)] == ["Gather", "Regroup"]  # none between the two
    graphs = [worker_graph(found, worker) for worker in range(3)]
    depthwise = [[n for n in graph.nodes if n.op_type == "Conv"][1] for graph in graphs]
    assert [node.attributes["group"].as_int() for node in depthwise] == [3, 3, 2]


def test_a_group_is_shared_by_workers_where_there_are_fewer(tmp_path):
    found = plan(net(conv(12, 2), folder=tmp_path), [LayerCut("l0", 1)], 3)
    graphs = [worker_graph(found, worker) for worker in range(3)]
    weights = [graph.parameters["l0/0"].shape for graph in graphs]
    assert weights == [(3, 2, 3, 3), (3, 2, 3, 3), (6, 2, 3, 3)]
    gathered = [next(n for n in graph.nodes if n.op_type == "Regroup") for graph in graphs]
    assert [known_shape(node.outputs[0])[1] for node in gathered] == [2, 2, 2]


def test_layers_of_one_worker_are_nowhere_else_and_all_have_the_connections(tmp_path):
    graph = net(conv(6), ("ReLU", ""), conv(5), folder=tmp_path)
    cuts = [LayerCut("l0", None, 0), LayerCut("l1", None, 0), LayerCut("l2", None, 1)]
    found = plan(graph, cuts, 2)
    assert [edge[:3] for edge in edges(found)] == [
        ("Gather", "batch", "worker 0"),
        ("Bridge", "worker 0", "worker 1"),
        ("Slice", "worker 1", "batch"),
    ]
    own = [[node.op_type for node in worker_graph(found, worker).nodes] for worker in range(2)]
    assert own == [["Gather", "Conv", "Relu", "Bridge", "Slice"], ["Gather", "Bridge", "Conv", "Slice"]]
    assert [sorted(worker_graph(found, worker).parameters) for worker in range(2)] == [
        ["l0/0", "l0/1"],
        ["l2/0", "l2/1"],
    ]


def test_a_net_cut_by_batch_is_the_net_itself(tmp_path):
    graph = net(conv(6), ("ReLU", ""), folder=tmp_path)
    found = plan(graph, [LayerCut("l0", 0)], 3)
    assert not found.edges
    assert [n.op_type for n in worker_graph(found, 1).nodes] == [n.op_type for n in graph.nodes]


def test_what_cannot_be_cut_by_feature_says_what_can(tmp_path):
    graph = net(conv(6), ("Softmax", ""), folder=tmp_path)
    message = r"net.prototxt:3: layer 'l1' \(Softmax\) cannot be cut by feature among 2 workers"
    with pytest.raises(UnsupportedError, match=message):
        plan(graph, [LayerCut("l1", 1)], 2)
    require_layers([LayerCut("l1", 1)], [graph])


def test_a_parameter_of_layers_that_are_cut_differently_is_refused(tmp_path):
    shared = ('param { name: "w" } param { name: "b" } ' + conv(4)[1],)
    graph = net(("Convolution", shared[0]), ("Convolution", shared[0]), folder=tmp_path)
    with pytest.raises(UnsupportedError, match="belongs to layers that are cut differently; cut them alike"):
        plan(graph, [LayerCut("l0", 1)], 2)


def test_a_layer_whose_first_axis_is_not_the_batch_stays_whole(tmp_path):
    graph = net(
        ("Permute", "permute_param { order: 1 order: 0 order: 2 order: 3 }"), ("ReLU", ""), folder=tmp_path
    )
    with pytest.raises(
        UnsupportedError, match=r"the samples are not the first axis of .*; use partition_dim: 0"
    ):
        plan(graph, [LayerCut("l1", None, 1)], 2)


@pytest.mark.parametrize("cut", [LayerCut("choice", 1), LayerCut("choice", None, 0)])
def test_a_cut_inside_a_branch_is_refused(cut, tmp_path):
    body = onnx.parser.parse_graph("body () => (float[N, 4] z) { z = Relu(x) }")
    graph = onnx.parser.parse_graph("g (float[N, 4] x, bool c) => (float[N, 4] y) { y = Identity(x) }")
    del graph.node[:]
    graph.node.append(onnx.helper.make_node("If", ["c"], ["y"], "choice", then_branch=body, else_branch=body))
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx")
    net = netweave.load(tmp_path / "net.onnx")
    with pytest.raises(UnsupportedError, match="it is a loop or a branch; cut the layers around it"):
        plan(net, [cut], 2)


def test_a_branch_that_reads_a_cut_value_inside_is_refused(tmp_path):
    body = onnx.parser.parse_graph("body () => (float[N, 4] z) { z = Relu(h) }")
    graph = onnx.parser.parse_graph(
        "g (float[N, 4] x, bool c) => (float[N, 4] y) { h = Relu(x) y = Identity(x) }"
    )
    graph.node[0].name = "hidden"
    del graph.node[1:]
    graph.node.append(onnx.helper.make_node("If", ["c"], ["y"], "choice", then_branch=body, else_branch=body))
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx")
    net = netweave.load(tmp_path / "net.onnx")
    with pytest.raises(
        UnsupportedError, match="reads 'h' inside, which is cut by feature; use partition_dim: 0"
    ):
        plan(net, [LayerCut("hidden", 1)], 2)
