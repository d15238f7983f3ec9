"""What the context of a layer says of sizes, and which class of error a mistake is."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UnsupportedError
from netweave.formats.lowering import MANY, LayerContext, ParameterStore
from netweave.formats.lowering.windows import Window
from netweave.graph import GraphBuilder


class Layer(LayerContext):
    """A layer that reads one value."""

    @property
    def x(self):
        return self.given


@pytest.fixture
def ctx():
    builder = GraphBuilder("net", format="test")
    made = Layer(builder, place="net.txt:3: layer 'a'")
    made.given = builder.input("x", [None, 3, 6, None])
    return made


def test_sizes_are_of_the_first_input_unless_another_is_given(ctx):
    assert ctx.shape() == (None, 3, 6, None)
    assert (ctx.rank(), ctx.size(1), ctx.sizes([-2, 1]), ctx.axis(-1)) == (4, 3, [6, 3], 3)
    other = ctx.constant(np.zeros((2, 5)))
    assert (ctx.shape(other), ctx.size(1, other)) == ((2, 5), 5)


@pytest.mark.parametrize(
    ("ask", "kind", "message"),
    [
        (lambda ctx: ctx.size(3), ShapeError, r"size of 'x' on axis 3 is open, .* --input-shape data=1x3"),
        (lambda ctx: ctx.size(4), ShapeError, "axis 4 is out of range for 4 axes"),
        (lambda ctx: ctx.check_count("bottom", 1, (2, MANY)), ReadError, "has 1 bottom, expected 2 or more"),
        (lambda ctx: ctx.check_count("top", 3, (1, 2)), ReadError, "has 3 tops, expected 1 to 2"),
        (lambda ctx: Window([3, 0]).check(ctx), ReadError, r"kernel is \[3, 0\], expected 1 or more"),
        (lambda ctx: Window([3], pads=[-1]).check(ctx), ReadError, r"padding is \[-1, -1\]"),
        (
            lambda ctx: Window([3], pads=[1], end_pads=[3]).check(ctx, is_pooling=True),
            ReadError,
            r"padding \[3\] must be less than the kernel \[3\]",
        ),
        (
            lambda ctx: Window([3, 3], dilations=[2, 4], pads=[0, 1]).check_fits(ctx, [5, 6]),
            ShapeError,
            "a window of 9 does not fit in 6 elements with padding 1",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(ctx, ask, kind, message):
    with pytest.raises(kind, match=rf"^net\.txt:3: layer 'a': .*{message}"):
        ask(ctx)


def test_errors_are_made_of_the_class_that_their_name_says(ctx):
    made = [ctx.read_error("a"), ctx.shape_error("b"), ctx.unsupported("c")]
    assert [type(error) for error in made] == [ReadError, ShapeError, UnsupportedError]


def test_relayout_does_to_a_value_what_a_layout_does_to_an_array(ctx):
    from netweave.graph.parameters import apply_layout

    layout = [("transpose", (1, 0)), ("ranges", (3, 6, 0, 3)), ("reshape", (2, 3))]
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    value = ctx.constant(array)
    # ranges join stretches of a flattened array, so a computed value is flattened first
    steps = [layout[0], ("reshape", (6,)), *layout[1:]]
    graph = ctx.builder.finish([ctx.relayout(value, steps)])
    from onnx_ir import to_proto
    from onnxruntime import InferenceSession

    session = InferenceSession(to_proto(graph.model).SerializeToString())
    feed = {"x": np.zeros((1, 3, 6, 2), np.float32)}
    (out,) = session.run(None, feed)
    np.testing.assert_array_equal(out, apply_layout(array, layout))


class TestParameterStore:
    def test_an_array_has_one_entry_and_an_initializer_for_each_layout(self, ctx):
        store = ParameterStore(ctx.builder)
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        entry = store.declare("w", (2, 3), "weight", array, context=ctx)
        assert store.declare("w", (2, 3), "weight", None, context=ctx) is entry
        plain, turned = store.initializer("w"), store.initializer("w", [("transpose", [1, 0])])
        assert store.initializer("w", (("transpose", (1, 0)),)) is turned is not plain
        np.testing.assert_array_equal(turned.const_value.numpy(), array.T)
        assert (entry.loaded, entry.trainable) == (True, True)

    def test_statistics_are_never_trained_and_missing_values_are_drawn(self, ctx):
        store = ParameterStore(ctx.builder)
        entry = store.declare("m", (2,), "mean", None, context=ctx)
        assert (entry.loaded, entry.trainable, store.array("m")) == (False, False, None)

    @pytest.mark.parametrize("shape", [(2**20, 2**20), (3, -1)])
    def test_an_array_beyond_any_memory_is_refused(self, ctx, shape):
        with pytest.raises(ShapeError, match=r"'w' would be .*, expected at most 2,147,483,647 elements"):
            ParameterStore(ctx.builder).declare("w", shape, "weight", None, context=ctx)

    def test_keys_are_those_that_a_layer_reads_in_order(self, ctx):
        store = ParameterStore(ctx.builder)
        for key in ("b", "a"):
            store.note_use("layer", key)
        assert (store.keys("layer"), store.keys("other")) == (("b", "a"), ())
