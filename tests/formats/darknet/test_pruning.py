"""Pruning: channels that do nothing can go without changing the net; what it costs is what is left."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import UsageError
from netweave.files import Source
from netweave.formats.darknet.config import parse_config
from netweave.formats.darknet.pruning import prune_channels
from netweave.formats.darknet.reader import build, encode_weights
from netweave.graph import stored_arrays, total_cost

CONV = "[convolutional]\nbatch_normalize={norm}\nfilters={filters}\nsize={size}\nstride={stride}\npad=1\n"


def conv(filters, *, size=3, stride=1, norm=1, more="activation=leaky\n"):
    return CONV.format(filters=filters, size=size, stride=stride, norm=norm) + more


HEAD = conv(14, size=1, norm=0, more="activation=linear\n")
YOLO = HEAD + "[yolo]\nmask=0,1\nnum=2\nclasses=2\nanchors=4,4,8,8\n"
BODIES = {
    "a chain": conv(8) + conv(12, stride=2) + YOLO,
    "a shortcut over two": conv(8) + conv(6, size=1) + conv(8) + "[shortcut]\nfrom=-3\n" + conv(9) + YOLO,
    "a shortcut of other widths": conv(10) + conv(6) + "[shortcut]\nfrom=-2\n" + conv(7) + YOLO,
    "shortcuts in a row": (
        conv(8) + (conv(5, size=1) + conv(8) + "[shortcut]\nfrom=-3\n") * 2 + conv(6) + YOLO
    ),
    "routes and upsampling": (
        conv(8)
        + conv(10, stride=2)
        + "[maxpool]\nsize=2\nstride=1\n"
        + conv(6, size=1)
        + "[upsample]\nstride=2\n[route]\nlayers=-1,0\n"
        + conv(7)
        + YOLO
    ),
    "a route alone": conv(8) + conv(6) + "[route]\nlayers=-2\n" + conv(7) + YOLO,
    "depthwise": conv(8) + conv(8, more="groups=8\nactivation=leaky\n") + conv(6, size=1) + YOLO,
    "groups": conv(8) + conv(8, more="groups=2\nactivation=leaky\n") + conv(6, size=1) + YOLO,
    "half of a route": conv(8) + "[route]\nlayers=-1\ngroups=2\ngroup_id=1\n" + conv(6) + YOLO,
    "reorg": conv(8) + "[reorg]\nstride=2\n" + conv(6) + YOLO,
    "two heads": (
        conv(8)
        + conv(9, stride=2)
        + YOLO
        + "[route]\nlayers=1\n"
        + conv(5, size=1)
        + "[upsample]\nstride=2\n[route]\nlayers=-1,0\n"
        + YOLO
    ),
    "a head of its own kind": conv(8) + conv(6) + "[scale_channels]\nfrom=-2\n" + conv(6) + YOLO,
}
BODIES["a head of its own kind"] = conv(6) + conv(6) + "[sam]\nfrom=-2\n" + conv(5) + YOLO


def text_of(body):
    return "[net]\nchannels=3\nheight=16\nwidth=16\n" + body


def written(folder, body, *, dead=0.4, seed=0):
    """Write a net of which a share of the channels is 0 wherever it is tied to others."""
    text = text_of(body)
    graph = build(parse_config(text.encode(), file="net.cfg"), Source(folder / "net.cfg"), None).graph
    arrays = {key: np.array(array) for key, array in stored_arrays(graph).items()}
    rng = np.random.default_rng(seed)
    for key in list(arrays):
        layer, _, name = key.rpartition("/")
        if name == "scales":
            # channels of the same number are dead in all layers, since shortcuts tie them by number
            chosen = (np.arange(len(arrays[key])) * 7 + seed) % 10 < 10 * dead
            arrays[key] = rng.uniform(0.5, 2, len(arrays[key])).astype(np.float32)
            arrays[key][chosen] = 0
            arrays[f"{layer}/biases"][chosen] = 0
    (folder / "net.cfg").write_text(text)
    (folder / "net.weights").write_bytes(encode_weights([arrays[key] for key in graph.parameters], seen=7))
    return folder / "net.cfg", folder / "net.weights"


def outputs(net, weights):
    data = np.random.default_rng(5).standard_normal((2, 3, 16, 16), dtype=np.float32)
    return list(netweave.run(netweave.load(net, weights), {"data": data}).values())


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_channels_that_are_zero_go_and_nothing_changes(tmp_path, name, seed):
    net, weights = written(tmp_path, BODIES[name], seed=seed)
    whole = total_cost(netweave.load(net, weights))
    pruned = prune_channels(net, weights, keep=0.9999, least=0.01)
    (tmp_path / "small.cfg").write_text(pruned.config)
    (tmp_path / "small.weights").write_bytes(pruned.weights)
    small = total_cost(netweave.load(tmp_path / "small.cfg", tmp_path / "small.weights"))
    assert small.multiply_adds < whole.multiply_adds
    assert small.parameters < whole.parameters
    expected, found = outputs(net, weights), outputs(tmp_path / "small.cfg", tmp_path / "small.weights")
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, atol=2e-5 * np.abs(one).max())


@pytest.mark.parametrize("keep", [0.75, 0.5, 0.25])
def test_what_is_left_costs_at_most_the_share_and_nearly_as_much(tmp_path, keep):
    body = BODIES["shortcuts in a row"].replace("filters=8", "filters=40").replace("filters=5", "filters=30")
    net, weights = written(tmp_path, body, dead=0)
    pruned = prune_channels(net, weights, keep=keep, least=0.05)
    (tmp_path / "small.cfg").write_text(pruned.config)
    (tmp_path / "small.weights").write_bytes(pruned.weights)
    whole = total_cost(netweave.load(net, weights)).multiply_adds
    small = total_cost(netweave.load(tmp_path / "small.cfg", tmp_path / "small.weights")).multiply_adds
    assert keep - 0.05 < small / whole <= keep


def test_the_largest_scales_stay(tmp_path):
    net, weights = written(tmp_path, BODIES["a chain"], dead=0)
    arrays = stored_arrays(netweave.load(net, weights))
    pruned = prune_channels(net, weights, keep=0.5, least=0.01)
    (tmp_path / "small.cfg").write_text(pruned.config)
    (tmp_path / "small.weights").write_bytes(pruned.weights)
    small = stored_arrays(netweave.load(tmp_path / "small.cfg", tmp_path / "small.weights"))
    for key in ("convolutional_0/scales", "convolutional_1/scales"):
        assert small[key].tolist() == arrays[key][arrays[key] > pruned.threshold].tolist()


def test_comments_and_all_other_settings_stay(tmp_path):
    net, weights = written(tmp_path, "# the first\n" + BODIES["a chain"])
    pruned = prune_channels(net, weights, keep=0.9999, least=0.01)
    lines = zip(net.read_text().splitlines(), pruned.config.splitlines(), strict=True)
    changed = [(old, new) for old, new in lines if old != new]
    assert [old for old, _ in changed] == ["filters=8", "filters=12"]
    assert all(new.startswith("filters=") for _, new in changed)


def test_too_small_a_share_is_refused(tmp_path):
    net, weights = written(tmp_path, BODIES["a chain"], dead=0)
    with pytest.raises(UsageError, match=r"cannot keep 0\.01 of the multiply-adds: with 0\.5 of"):
        prune_channels(net, weights, keep=0.01, least=0.5)


def test_a_net_without_batch_normalisation_is_refused(tmp_path):
    net, weights = written(tmp_path, conv(4, norm=0) + YOLO)
    with pytest.raises(UsageError, match="no layer has batch_normalize=1"):
        prune_channels(net, weights, keep=0.5, least=0.1)


def test_the_net_itself_is_not_written_over(tmp_path):
    net, weights = written(tmp_path, BODIES["a chain"])
    with pytest.raises(UsageError, match="is the net itself; give another file to write"):
        netweave.prune(net, weights, net)
