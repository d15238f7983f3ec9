"""No two buffers that are alive together share a byte, and no block is smaller than the bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.zoo import NETS
from netweave.runtime.memory_plan import Buffer, Timeline, prepare, share, timeline
from netweave.runtime.memory_plan.lifetimes import ALIGNMENT

BUFFERS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 500)).map(
        lambda row: Buffer("b", "value", row[2], row[0], row[0] + row[1])
    ),
    max_size=40,
)


def bound(buffers):
    """Return the most bytes alive at a step, counted step by step."""
    sizes = [(-(-b.num_bytes // ALIGNMENT) * ALIGNMENT, b.first, b.last) for b in buffers]
    return max((sum(n for n, first, last in sizes if first <= step <= last) for step in range(20)), default=0)


@given(BUFFERS)
def test_buffers_that_are_alive_together_lie_apart(buffers):
    sharing = share(buffers)
    for i, one in enumerate(buffers):
        assert sharing.offsets[i] >= 0
        assert sharing.offsets[i] + one.num_bytes <= sharing.num_bytes
        for j, other in enumerate(buffers[:i]):
            if one.first <= other.last and other.first <= one.last:
                begin, end = sharing.offsets[i], sharing.offsets[i] + one.num_bytes
                assert end <= sharing.offsets[j] or sharing.offsets[j] + other.num_bytes <= begin


@given(BUFFERS)
def test_the_block_lies_between_the_bound_and_all_buffers(buffers):
    assert bound(buffers) <= share(buffers).num_bytes <= sum(-(-b.num_bytes // 64) * 64 for b in buffers)


def test_a_chain_takes_two_buffers():
    chain = [Buffer(str(i), "value", 640, i, i + 1) for i in range(9)]
    assert share(chain).num_bytes == 1280


@given(BUFFERS)
def test_live_bytes_are_those_of_the_buffers_of_a_step(buffers):
    timeline = Timeline([("n", "forward")] * 20, buffers)
    expected = [sum(b.num_bytes for b in buffers if b.first <= step <= b.last) for step in range(20)]
    assert timeline.live_bytes() == expected
    assert timeline.peak == max(expected)


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "resnet50", "inception-v3", "squeezenet"])
@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("training", [False, True])
def test_blocks_of_known_nets_are_within_5_percent_of_the_bound(name, batch, training):
    published = NETS[name]
    graph = published.build().graph(data=(batch, *published.image))
    needed = timeline(prepare(graph, batch=batch, training=training)).without("parameter gradient")
    assert share(needed.buffers).num_bytes <= 1.05 * needed.peak
