"""The most bytes alive at once in small nets, by hand."""

from __future__ import annotations

from netweave import symbol as sym
from netweave.runtime.memory_plan import prepare, timeline


def peak(net: sym.Symbol, *shape: int, training: bool = False) -> int:
    """Return the most floats alive at once in a run or a step, inputs and parameters not counted."""
    graph = net.graph(data=shape)
    return timeline(prepare(graph, batch=shape[0], training=training)).peak // 4


def test_a_chain():
    """Sizes in floats: data 32x100, fc1 32x50, in place relu, fc2 32x10; weights 5,050 and 510.

    A step needs most while it computes the gradients of fc1: of what is 320 + 1600 floats, the scores and the
    gradient behind fc1, and the gradients of all weights.
    """
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=50, name="fc1")
    net = sym.FullyConnected(sym.relu(net), num_hidden=10, name="fc2")
    assert peak(net, 32, 100) == 1600 + 320
    assert peak(net, 32, 100, training=True) == 5560 + 320 + 1600


def test_a_value_that_is_read_again_lives_on():
    """Of four values of 100 floats two are alive at once in a chain, three with a bridge over it.

    Of values that are written over the one before, one is, and two with a bridge.
    """
    x = sym.Variable("data")
    for function, alive in ((sym.exp, 2), (sym.relu, 1)):
        chain = function(function(function(function(x))))
        assert peak(chain, 1, 100) == 100 * alive
        first = function(x)
        bridge = function(function(function(first))) + first
        assert peak(bridge, 1, 100) == 100 * (alive + 1)


def test_a_view_takes_nothing_and_keeps_what_it_shows():
    x = sym.relu(sym.Variable("data"))
    assert peak(sym.relu(sym.Flatten(x)), 1, 10, 10) == 200
