"""Modules in memory against PyTorch itself, and against what its exporter's optimisation makes of them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import netweave
from netweave.errors import CodeError, ShapeError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

from tests.formats.pytorch.nets import zoo  # noqa: E402 - needs torch

IMAGE = (3, 3, 33, 33)
SHAPES = {"ResNet": IMAGE, "Mobile": IMAGE, "Twice": (3, 6), "Gates": (3, 7, 6)}


def made(name: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    module = getattr(zoo, name)()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.3)
            part.running_var.uniform_(0.5, 2)
    return module, torch.randn(SHAPES[name]) if name in SHAPES else torch.randint(0, 20, (3, 7))


@pytest.mark.filterwarnings("ignore")  # the exporter's own
@pytest.mark.parametrize("name", ["ResNet", "Mobile", "Twice", "Gates", "Encoder"])
def test_a_module_is_what_pytorch_runs_and_what_it_exports(name: str, tmp_path: Path) -> None:
    module, x = made(name)
    graph = netweave.load(module, examples=[x])
    assert module.training  # as before
    module.eval()
    with torch.no_grad():
        expected = module(x).numpy()
    for size in (3, 1):
        got = netweave.run(graph, {"x": x[:size].numpy()})
        assert np.allclose(next(iter(got.values())), expected[:size], atol=1e-5)
    logging.disable(logging.WARNING)
    path = tmp_path / "net.onnx"
    for batch in (None, ({0: torch.export.Dim("batch")},)):
        torch.onnx.export(module, (x,), path, dynamo=True, verbose=False, dynamic_shapes=batch)
        comparison = netweave.compare(graph, netweave.load(path))
        assert comparison.exit_status == 0, comparison.sentence
        assert not comparison.findings
    logging.disable(logging.NOTSET)


def test_the_exporter_s_scaffolding_is_gone() -> None:
    module, x = made("ResNet")
    kinds = {node.op_type for node in netweave.load(module, examples=[x]).nodes}
    assert kinds == {"Conv", "BatchNormalization", "Relu", "Add", "MaxPool", "ReduceMean", "Reshape", "Gemm"}
    module, x = made("Gates")
    assert "Shape" not in {node.op_type for node in netweave.load(module, examples=[x]).nodes}


def test_calls_of_a_shared_module_are_layers() -> None:
    module, x = made("Twice")
    layers = netweave.load(module, examples=[x]).layers
    rows = [(layer.name, layer.type, layer.call) for layer in layers.values()]
    assert rows == [
        ("shared", "Linear", 0),
        ("shared", "Linear", 1),
        ("relu", "aten.relu", 0),
        ("shared", "Linear", 2),
    ]
    assert {layer.parameters for layer in layers.values()} == {("shared.weight", "shared.bias"), ()}


def test_parameters_are_those_of_the_state_dict() -> None:
    module, x = made("Mobile")
    parameters = netweave.load(module, examples=[x]).parameters
    state = {k: v for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")}
    assert {k: p.shape for k, p in parameters.items()} == {k: tuple(v.shape) for k, v in state.items()}
    assert not parameters["stem.1.running_var"].trainable
    assert parameters["stem.1.running_var"].role == "variance"
    assert parameters["stem.1.weight"].role == "gamma"


def test_sizes_are_found_or_asked_for() -> None:
    found = netweave.load(made("Mobile")[0])
    assert found.notes[0].startswith("nobody said the size of input 'x': traced with Nx3x224x224")
    with pytest.raises(UsageError, match=r"no input named 'data'; the inputs are 'x'"):
        netweave.load(made("Mobile")[0], input_shapes={"data": (1, 3, 32, 32)})
    with pytest.raises(ShapeError, match=r"none of the usual sizes fits .*set it \(--input-shape input="):
        netweave.load(
            torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.Flatten(), torch.nn.Linear(7, 2))
        )


class Tokens(torch.nn.Module):
    """A dense layer over the tokens of a picture: 12 of them are no square."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = torch.nn.Conv2d(3, 5, 4, stride=4)
        self.mixed = torch.nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mixed(self.patch(x).flatten(2))


class Functional(torch.nn.Module):
    """A convolution by a function, with filters that are an array of the module's own."""

    def __init__(self) -> None:
        super().__init__()
        self.filters = torch.nn.Parameter(torch.ones(4, 2, 3, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, self.filters)


@pytest.mark.parametrize(
    ("module", "sizes"),
    [(Tokens(), (1, 3, 12, 16)), (Functional(), (1, 2, 224, 224))],
    ids=["tokens", "functions"],
)
def test_sizes_follow_from_arrays(module: torch.nn.Module, sizes: tuple[int, ...]) -> None:
    assert netweave.load(module).assumed == {"x": sizes}


def test_a_function_of_tensors_is_a_module(tmp_path: Path) -> None:
    """What a factory returns need not be an ``nn.Module``."""
    path = tmp_path / "net.py"
    path.write_text(
        "import torch\n"
        "W = torch.arange(12.0).view(3, 4)\n"
        "def load():\n"
        "    return lambda x: torch.relu(x) @ W\n"
    )
    x = np.array([[1.0, -2.0, 3.0]], np.float32)
    made = netweave.run(netweave.load(f"{path}:load", input_shapes={"x": (1, 3)}), {"x": x})
    np.testing.assert_allclose(next(iter(made.values())), [[24.0, 28.0, 32.0, 36.0]])


def test_where_open_sizes_cannot_be_solved_the_batch_alone_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of nets with a pooling of four before a dense layer: sympy gives up, and with it the tracing."""
    export = torch.export.export

    def unsolved(module: Any, args: Any, kwargs: Any, dynamic_shapes: Any = None) -> Any:
        if dynamic_shapes and any(axis > 1 for axes in dynamic_shapes.values() for axis in axes):
            raise NotImplementedError("The inequality cannot be solved")
        return export(module, args, kwargs, dynamic_shapes=dynamic_shapes)

    monkeypatch.setattr(torch.export, "export", unsolved)
    graph = netweave.load(torch.nn.Conv2d(3, 2, 3))
    shape = graph.inputs[0].shape
    assert shape is not None
    assert not isinstance(shape[0], int)
    assert all(isinstance(size, int) for size in shape[1:])


@pytest.mark.parametrize("pool", [torch.nn.AdaptiveAvgPool2d(3), torch.nn.AdaptiveAvgPool2d((1, None))])
def test_an_adaptive_pooling_fixes_the_sizes_since_its_windows_follow_them(pool: Any) -> None:
    """PyTorch's exporter writes the windows of the example, which are others at another size."""
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), pool).eval()
    graph = netweave.load(module, likely_shapes=[(1, 3, 24, 31)])
    assert graph.declared == {"input": (None, 3, 24, 31)}
    assert any("adaptive pooling" in note for note in graph.notes)
    x = torch.randn(2, 3, 24, 31)
    got = next(iter(netweave.run(graph, {"input": x.numpy()}).values()))
    assert np.allclose(got, module(x).detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", ["Avg", "Max"])
def test_a_pooling_to_one_value_is_global_at_every_size(kind: str) -> None:
    pool = getattr(torch.nn, f"Adaptive{kind}Pool2d")(1)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), pool).eval()
    graph = netweave.load(module, likely_shapes=[(1, 3, 24, 31)])
    for sizes in ((24, 31), (40, 17)):
        x = torch.randn(2, 3, *sizes)
        got = next(iter(netweave.run(graph, {"input": x.numpy()}).values()))
        assert np.allclose(got, module(x).detach().numpy(), atol=1e-6)


def test_code_that_decides_by_values_is_refused_with_its_line() -> None:
    class Branch(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x) if x.sum() > 0 else x

    line = (
        r"it decides by a value that it computes \(test_module.py:\d+\); name a class or function that ends"
    )
    with pytest.raises(CodeError, match=line):
        netweave.load(Branch(2, 2))


def test_code_that_cannot_be_traced_is_named() -> None:
    class Drawing(torch.nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(torch.from_numpy(x.numpy() + 1))

    with pytest.raises(CodeError, match="its code cannot be traced: "):
        netweave.load(Drawing(2, 2), input_shapes={"x": (2, 2)})


def test_tensors_may_be_made_of_named_data() -> None:
    class Centred(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - torch.tensor(data=[104.0, 117.0, 123.0], dtype=x.dtype, device=x.device).view(
                1, 3, 1, 1
            )

    made = torch.tensor
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 4), dtype=np.float32)
    found = netweave.run(netweave.load(Centred(), input_shapes={"x": x.shape}), {"x": x})
    wanted = x - np.array([104, 117, 123], np.float32).reshape(1, 3, 1, 1)
    np.testing.assert_allclose(next(iter(found.values())), wanted, rtol=1e-6)
    assert torch.tensor is made


def test_an_attempt_with_open_sizes_leaves_no_marks() -> None:
    class Fixed(torch.nn.Module):
        """Code that cannot be traced with open sizes."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not isinstance(x.shape[0], int):
                raise TypeError("an open size")
            return x.relu()

    found = netweave.load(Fixed(), input_shapes={"x": (2, 3, 4, 4)})
    assert [node.op_type for node in found.nodes] == ["Relu"]


class Autocast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.fc = torch.nn.Linear(4, 5)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.fc(torch.relu(self.conv(x)).mean((2, 3))).float()


@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_layers_under_autocast_keep_their_names_and_are_read_in_full_precision():
    module = Autocast().eval()
    graph = netweave.load(module, input_shapes={"x": (1, 3, 8, 8)})
    assert {"conv", "fc"} <= graph.layers.keys()
    assert any("torch.autocast, which is left out" in note for note in graph.notes)
    x = torch.randn(2, 3, 8, 8)
    expected = module.fc(torch.relu(module.conv(x)).mean((2, 3))).detach().numpy()
    (found,) = netweave.run(graph, {"x": x.numpy()}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


class Optional(torch.nn.Module):
    """Like bare modules of Hugging Face: every argument may be left out, and the first holds integers."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(20, 4)
        self.fc = torch.nn.Linear(4, 3)

    def forward(self, input_ids=None, attention_mask=None, scale=None):
        x = self.words(input_ids)
        if attention_mask is not None:
            x = x * attention_mask[:, :, None]
        return self.fc(x)


@pytest.mark.filterwarnings("ignore")  # the exporter's own
@pytest.mark.parametrize(
    ("shapes", "inputs"),
    [
        ({}, ["input_ids"]),
        ({"input_ids": (1, 6)}, ["input_ids"]),
        ({"input_ids": (1, 6), "attention_mask": (1, 6)}, ["input_ids", "attention_mask"]),
    ],
)
def test_optional_arguments_and_integer_inputs(shapes, inputs):
    graph = netweave.load(Optional().eval(), input_shapes=shapes)
    assert [value.name for value in graph.inputs] == inputs
    assert str(graph.inputs[0].dtype) == "INT64"
    assert [tuple(value.shape)[-1] for value in graph.outputs] == [3]


class Scaled(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return torch.relu(self.conv(x)) * self.factor


@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_a_fix_of_a_number_in_the_code_says_the_number():
    first, second = Scaled(0.25), Scaled(0.5)
    second.load_state_dict(first.state_dict())
    shapes = {"x": (1, 3, 8, 8)}
    nets = [netweave.load(net.eval(), input_shapes=shapes) for net in (first, second)]
    fixes = [finding.fix for finding in netweave.compare(*nets).findings]
    assert fixes
    assert not [fix for fix in fixes if "val_" in fix]
    assert "0.25" in fixes[0]


@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_a_convolution_of_volumes_without_a_bias():
    module = torch.nn.Conv3d(2, 3, 2, bias=False).eval()
    x = torch.randn(2, 2, 4, 5, 6)
    graph = netweave.load(module, examples=[x])
    assert [len([v for v in node.inputs if v is not None]) for node in graph.nodes] == [2]
    (found,) = netweave.run(graph, {"input": x.numpy()}).values()
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5, atol=1e-5)


class Pyramid(torch.nn.Module):
    """A head on several feature maps, as those of RefineNet and of detectors are."""

    def __init__(self) -> None:
        super().__init__()
        self.coarse, self.fine = torch.nn.Conv2d(6, 4, 1), torch.nn.Conv2d(3, 4, 1)

    def forward(self, maps: Any, scale: Any = 1.0) -> Any:
        coarse, fine = maps.values() if isinstance(maps, dict) else maps
        up = torch.nn.functional.interpolate(self.coarse(coarse), scale_factor=2.0)
        return (up + self.fine(fine)) * scale


@pytest.mark.parametrize("names", [("maps_0", "maps_1"), ("maps_low", "maps_high")])
def test_lists_and_dicts_of_tensors_are_inputs_of_their_own(names: tuple[str, str]) -> None:
    torch.manual_seed(0)
    module, rng = Pyramid(), np.random.default_rng(0)
    shapes = dict(zip(names, [(2, 6, 4, 4), (2, 3, 8, 8)], strict=True))
    graph = netweave.load(module, input_shapes=shapes)
    assert [value.name for value in graph.inputs] == list(names)
    arrays = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    (found,) = netweave.run(graph, arrays).values()
    with torch.no_grad():
        expected = module([torch.from_numpy(array) for array in arrays.values()])
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_an_example_may_be_a_list_of_arrays() -> None:
    arrays = [np.ones((2, 6, 4, 4), np.float32), np.ones((2, 3, 8, 8), np.float32)]
    graph = netweave.load(Pyramid(), examples=[arrays])
    assert [value.name for value in graph.inputs] == ["maps_0", "maps_1"]


def test_what_is_wrong_with_the_sizes_of_a_list_is_said() -> None:
    with pytest.raises(UsageError, match=r"counted from maps_0 on without gaps, .* given for maps_1, maps_2"):
        netweave.load(Pyramid(), input_shapes={"maps_1": (1, 6, 4, 4), "maps_2": (1, 3, 8, 8)})
    with pytest.raises(
        ShapeError, match=r"of a list or dict of tensors set that of each one \(--input-shape maps_0="
    ):
        netweave.load(Pyramid())


def test_signals_of_thousands_of_samples_are_tried() -> None:
    net = torch.nn.Sequential(torch.nn.Conv1d(1, 2, 2), torch.nn.Conv1d(2, 2, 2, dilation=3000))
    assert (
        netweave.load(net).notes[0].startswith("nobody said the size of input 'input': traced with Nx1x4096")
    )


class Clips(torch.nn.Module):
    """C3D with few channels: its dense layer counts the pixels of 16 images of 112 by 112."""

    def __init__(self, columns: int = 2 * 4 * 7 * 7) -> None:
        super().__init__()
        self.conv = torch.nn.Conv3d(3, 2, 3, padding=1)
        self.pool = torch.nn.MaxPool3d((4, 16, 16))
        self.dense = torch.nn.Linear(columns, 5)
        self.tried: list[tuple[int, ...]] = []

    def forward(self, clip: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            self.tried.append(tuple(clip.shape))
        return self.dense(self.pool(torch.relu(self.conv(clip))).flatten(1))


def test_clips_are_tried_before_large_volumes() -> None:
    net = Clips()
    assert "traced with Nx3x16x112x112" in netweave.load(net).notes[0]
    elements = [np.prod(sizes) for sizes in net.tried]
    assert elements == sorted(elements)
    port = Clips()
    port.load_state_dict(net.state_dict())
    assert netweave.compare(net, port, num_samples=1).probes == ("clip 1x3x16x112x112",)
    with pytest.raises(ShapeError, match=r"set it \(--input-shape clip=1x3x16x112x112\)"):
        netweave.load(Clips(7))


def test_a_wrong_name_is_refused_before_any_code_is_run() -> None:
    nets = [Clips(), Clips()]
    with pytest.raises(UsageError, match="no input named 'image'; the inputs are 'clip'"):
        netweave.compare(*nets, input_shapes={"image": (1, 3, 16, 112, 112)})
    assert not nets[0].tried
    assert not nets[1].tried


def test_an_error_of_what_was_exported_names_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from netweave.formats.pytorch import exported

    def failing(proto: Any, path: Any, rows: Any) -> Any:
        raise ShapeError(f"the bias is in {path}", place=f"{path}: Conv 'node_conv2d'")

    monkeypatch.setattr(exported, "read_model", failing)
    with pytest.raises(ShapeError, match=r"^Conv2d: Conv 'node_conv2d': the bias is in Conv2d$"):
        netweave.load(torch.nn.Conv2d(3, 2, 3), input_shapes={"input": (1, 3, 8, 8)})


def test_the_error_of_code_with_embeddings_is_not_about_the_numbers_drawn_for_them() -> None:
    class Broken(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(9, 4)

        def forward(self, words: Any, others: Any) -> Any:
            return (self.embed(words) + self.embed(others)).reshape(-1, 7)

    with pytest.raises(CodeError, match=r"shape .* is invalid for input of size|cannot be traced.*view|7"):
        netweave.load(Broken(), input_shapes={"words": (2, 5), "others": (2, 5)})


def test_masks_of_bytes_are_masks() -> None:
    """As transformers of 2018 make them."""

    class Masked(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            mask = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.uint8), diagonal=1)
            scores = (x @ x.transpose(1, 2)).masked_fill(mask | mask, -1e9)
            return torch.where(mask, scores, scores.softmax(-1))

    x = np.random.default_rng(0).standard_normal((2, 5, 3), dtype=np.float32)
    found = next(iter(netweave.run(netweave.load(Masked(), input_shapes={"x": x.shape}), {"x": x}).values()))
    scores = np.where(np.triu(np.ones((5, 5)), 1), np.float32(-1e9), x @ x.transpose(0, 2, 1))
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.where(np.triu(np.ones((5, 5)), 1), scores, shares / shares.sum(-1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    with pytest.raises(RuntimeError, match="boolean"):
        torch.zeros(2).masked_fill(torch.zeros(2, dtype=torch.uint8), 0)


def test_a_short_signal_is_tried_first_where_a_recurrent_layer_is_traced_step_by_step() -> None:
    class Spotter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv1d(2, 8, 5, padding=2)
            self.gru = torch.nn.GRU(8, 4, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.gru(self.conv(x).transpose(1, 2))[0]

    assert netweave.load(Spotter()).assumed == {"x": (1, 2, 16)}


@pytest.mark.parametrize("first", [torch.nn.Linear(6, 8), torch.nn.Embedding(30, 8)], ids=["linear", "words"])
def test_a_table_of_positions_says_how_long_a_sequence_is(first: Any) -> None:
    class Placed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = first
            self.positions = torch.nn.Parameter(torch.randn(1, 9, 8))

        def forward(self, x: Any) -> Any:
            return self.first(x) + self.positions

    (sizes,) = netweave.load(Placed()).assumed.values()
    assert sizes[1] == 9
