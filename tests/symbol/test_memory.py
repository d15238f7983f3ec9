"""The estimate of memory, by hand."""

from __future__ import annotations

from netweave import symbol as sym


def test_a_chain_by_hand():
    """Sizes in floats: data 32x100, fc1 32x50, in place relu, fc2 32x10; weights 5,050 and 510.

    A step needs most while it computes the gradients of fc1: of what is 320 + 1600 floats, the scores and the
    gradient behind fc1, and the gradients of all weights.
    """
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=50, name="fc1")
    net = sym.FullyConnected(sym.relu(net), num_hidden=10, name="fc2")
    found = net.memory(data=(32, 100))
    assert found.parameters == 4 * (5050 + 510)
    assert found.inputs == 4 * 3200
    assert found.inference == 4 * (5560 + 3200 + 1600 + 320)
    assert found.training == 4 * (2 * 5560 + 3200 + (320 + 1600))


def test_a_value_that_is_read_again_lives_on():
    """Of four values of 100 floats two are alive at once in a chain, three with a bridge over it.

    Of values that are written over the one before, one is, and two with a bridge.
    """
    x = sym.Variable("data")
    for function, alive in ((sym.exp, 2), (sym.relu, 1)):
        chain = function(function(function(function(x))))
        assert chain.memory(data=(1, 100)).inference == 4 * (100 + 100 * alive)
        first = function(x)
        bridge = function(function(function(first))) + first
        assert bridge.memory(data=(1, 100)).inference == 4 * (100 + 100 * (alive + 1))


def test_a_view_takes_nothing_and_keeps_what_it_shows():
    x = sym.relu(sym.Variable("data"))
    net = sym.relu(sym.Flatten(x))
    assert net.memory(data=(1, 10, 10)).inference == 4 * (100 + 200)


def test_in_words():
    text = str(sym.FullyConnected(sym.Variable("data"), num_hidden=50).memory(data=(32, 100)))
    assert text == "20.2 kB of parameters; 39.4 kB to predict, 66.0 kB to train"
