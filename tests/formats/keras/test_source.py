"""Keras source that Netweave writes: it computes what the net does, and reads as a person's would."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import netweave
from netweave import api
from netweave.errors import CodeError, ReadError, UnsupportedError, UsageError
from netweave.files.sandbox import has_guard
from netweave.formats.keras.source.writer import TABLE
from tests.formats import graph_nets, recurrent_nets, written_nets
from tests.formats.framework_runs import Case, check
from tests.formats.keras.nets import NETS as MORE
from tests.formats.onnx.models import load, model, node
from tests.formats.written_nets import NETS, SIZES, close, drawn, one

ROOT = Path(__file__).parents[3]
TENSORFLOW = os.environ.get("NETWEAVE_TENSORFLOW")

needs_keras = pytest.mark.skipif(find_spec("keras") is None, reason="Keras is not installed")

SAID = {name: made for name, made in {**NETS, **MORE}.items() if name != "mean rounded up"}
"""All nets but one, whose windows at the end are cut."""


def expected(made):
    """Return inputs by name, and outputs: those of the nets of all writers, or as ONNX says its inputs."""
    if any(made is each for each in NETS.values()):
        x, outputs = written_nets.expected(made)
        return {"x": x}, outputs
    return recurrent_nets.expected(made)


def residuals(folder: Path, *channels: int) -> netweave.Graph:
    """Return a net of residual blocks of two convolutions each, read from Caffe's text."""
    text, last = 'name: "net" input: "data" input_shape { dim: 1 dim: 4 dim: 12 dim: 12 }\n', "data"

    def conv(name: str, bottom: str, count: int, size: int) -> str:
        return f"""layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}"
            convolution_param {{ num_output: {count} kernel_size: {size} pad: {size // 2} }} }}
        layer {{ name: "{name}_relu" type: "ReLU" bottom: "{name}" top: "{name}" }}
        """

    for number, count in enumerate(channels):
        block = f"res{chr(97 + number)}"
        text += conv(f"{block}_1", last, count, 1) + conv(f"{block}_2", f"{block}_1", 4, 3)
        text += f"""layer {{ name: "{block}" type: "Eltwise" top: "{block}"
            bottom: "{last}" bottom: "{block}_2" }}
        """
        last = block
    (folder / "net.prototxt").write_text(text)
    return netweave.load(folder / "net.prototxt")


def saved(made, folder):
    shapes = {name: array.shape for name, array in expected(made)[0].items()}
    netweave.save(load(made, folder, input_shapes=shapes), folder / "written.py", to="keras")
    return folder / "written.py"


@needs_keras
@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
def test_windows_of_two_that_are_rounded_up_are_so_at_any_size(op_type, tmp_path):
    made = one(op_type, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    written = saved(made, tmp_path)
    assert '2D(2, padding="same")' in written.read_text()
    inputs, (wanted,) = expected(made)
    (x,) = inputs.values()
    (found,) = netweave.run(netweave.load(written, trust=True), {"x": x.transpose(0, 2, 3, 1)}).values()
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), wanted, rtol=1e-6)


def run(python: str, folder: Path, **environment: str) -> None:
    """Run every net that Keras can say, in a process of its own, and hold it against ONNX Runtime."""
    for number, made in enumerate(SAID.values()):
        inner = folder / str(number)
        inner.mkdir()
        saved(made, inner)
        np.savez(inner / "inputs.npz", **expected(made)[0])
    command = [python, "-m", "tests.oracles.written", "keras", str(folder)]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    for number, made in enumerate(SAID.values()):
        close(np.load(folder / str(number) / "y.npz").values(), expected(made)[1])
        close(read_again(folder / str(number) / "written.keras", expected(made)[0]), expected(made)[1])


def read_again(path: Path, inputs: dict[str, np.ndarray]):
    """Return what a model that Keras has saved makes of images with channels first."""
    given = {name: np.moveaxis(x, 1, -1) if x.ndim == 4 else x for name, x in inputs.items()}
    found = netweave.run(netweave.load(path), given).values()
    return [np.moveaxis(array, -1, 1) if array.ndim == 4 else array for array in found]


def case(name, folder):
    inputs = expected(SAID[name])[0]
    shapes = {name: array.shape for name, array in inputs.items()}
    return Case(name, load(SAID[name], folder, input_shapes=shapes), inputs)


CUT_MEANS = {name for name in graph_nets.GRAPHS if name.startswith("mean as ")}
"""Means whose last windows are cut, which Keras's are not."""

GRAPHS = {each.name: each for each in graph_nets.graph_cases(TABLE, without=CUT_MEANS)}


def framework_cases(folder):
    return [*(case(name, folder) for name in SAID), *GRAPHS.values()]


@pytest.mark.parametrize("name", [*SAID, *GRAPHS])
def test_keras_computes_of_the_file_what_we_do_of_the_net(name, tmp_path):
    check("keras", GRAPHS[name] if name in GRAPHS else case(name, tmp_path), tmp_path)


def test_every_operator_has_a_net():
    used = {each.op_type for made in SAID.values() for each in made.graph.node}
    assert {name for domain, name in TABLE.names() if not domain} - used == set()


@pytest.mark.slow
@needs_keras
def test_what_is_written_computes_what_onnxruntime_does(tmp_path):
    run(sys.executable, tmp_path, KERAS_BACKEND="torch", KERAS_HOME=str(tmp_path))


@pytest.mark.oracle
@pytest.mark.skipif(not TENSORFLOW, reason="NETWEAVE_TENSORFLOW names no Python with TensorFlow")
def test_tensorflow_computes_the_same(tmp_path):
    run(str(TENSORFLOW), tmp_path)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (NETS["mean rounded up"], "AveragePool: its last windows are cut"),
        (one("Hardmax"), r"Hardmax \(1, first 'hardmax'\); write it as \.onnx instead"),
        (one("Pow", {"a": drawn(6, 9, 8)}), "its exponent is no stored number"),
        (one("Mul", {"a": drawn(3, 6, 9, 8)}), "differs from example to example"),
        (one("Gather", {"i": np.array(1)}, axis=2), "in another order"),
        (
            one("ConvTranspose", {"w": drawn(6, 3, 1, 1)}, dilations=[2, 2]),
            "no transposed convolution with dilation",
        ),
        (recurrent_nets.steps("LSTM", clip=0.5), "gates are clipped"),
        (recurrent_nets.steps("RNN", activations=["ThresholdedRelu"]), "activations are Thresholdedrelu"),
        (recurrent_nets.steps("LSTM", activations=["Sigmoid", "Tanh", "Relu"]), "activations are Sigmoid"),
        (recurrent_nets.stored_states(), "initial states are stored"),
        (recurrent_nets.lengths(), "sequences have lengths"),
    ],
)
def test_what_keras_cannot_say_is_refused_by_name(made, message, tmp_path):
    with pytest.raises(UnsupportedError, match=f"cannot be written as Keras source: .*{message}"):
        saved(made, tmp_path)
    assert not (tmp_path / "written.py").exists()


def test_parts_that_repeat_are_functions_and_loops(tmp_path):
    netweave.save(residuals(tmp_path, 8, 8, 8, 16), tmp_path / "port.py", to="keras", random_weights=True)
    text = (tmp_path / "port.py").read_text()
    tree = ast.parse(text)
    functions = [part.name for part in tree.body if isinstance(part, ast.FunctionDef)]
    assert functions == ["residual", "build", "load"]
    assert 'for name in ("resa", "resb", "resc"):\n        x = residual(x, 8, name=name)' in text
    assert 'x = residual(x, 16, name="resd")' in text
    assert "netweave" not in text.replace("Netweave", "")


def test_the_source_passes_ruff(tmp_path):
    pytest.importorskip("ruff")
    netweave.save(residuals(tmp_path, 8, 8, 16), tmp_path / "port.py", to="keras", random_weights=True)
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--isolated",
            "--line-length",
            "120",
            str(tmp_path / "port.py"),
        ],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


def test_arrays_are_by_layer_and_name_in_keras_order(tmp_path):
    saved(NETS["dense behind a transpose"], tmp_path)
    with np.load(tmp_path / "written.npz") as arrays:
        assert sorted(arrays) == ["y/bias", "y/kernel"]
        x, [wanted] = written_nets.expected(NETS["dense behind a transpose"])
        flat = np.moveaxis(x, 1, -1).reshape(len(x), -1)
        close([flat @ arrays["y/kernel"] + arrays["y/bias"]], [wanted])


@pytest.mark.slow
@needs_keras
def test_a_port_is_read_again_and_proven_equal(tmp_path):
    found = api.convert_and_verify(
        residuals(tmp_path, 8, 8, 16), tmp_path / "port.py", to="keras", random_weights=True
    )
    assert found.exit_status == 0
    assert found.error < 1e-5


@pytest.mark.slow
@needs_keras
def test_a_port_has_the_weights_beside_it(tmp_path):
    net = residuals(tmp_path, 8, 8)
    netweave.save(net, tmp_path / "port.py", to="keras", random_weights=True)
    loaded = netweave.load(tmp_path / "port.py:load")
    found = netweave.compare(loaded, tmp_path / "port.py")
    assert found.equal
    assert found.b.files == (str(tmp_path / "port.py"), str(tmp_path / "port.npz"))
    (tmp_path / "port.npz").rename(tmp_path / "moved.npz")
    assert netweave.compare(loaded, f"{tmp_path / 'port.py'},{tmp_path / 'moved.npz'}").equal
    with pytest.raises(UsageError, match=r"\(build, load\), expected one: name it"):
        netweave.load(tmp_path / "port.py")


@pytest.mark.slow
@needs_keras
def test_code_that_fails_is_told_by_its_line(tmp_path):
    (tmp_path / "bad.py").write_text(
        "import keras\n\n\ndef build():\n    return keras.Input((0, -1)) + nothing\n"
    )
    with pytest.raises(CodeError, match=r"bad\.py:5: its code fails"):
        netweave.load(tmp_path / "bad.py")


IMPORTING = """\
import gone_package
import gone_parts.deep
import keras
from gone_names import Base, registered
from keras import layers


@registered("net")
def width():
    return {width}


def build():
    return keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(width(), 3)])
"""


@needs_keras
@pytest.mark.slow
@pytest.mark.parametrize("trust", [False, True])
def test_packages_that_are_not_here_are_missed_only_where_the_model_needs_them(tmp_path, trust):
    (tmp_path / "net.py").write_text(IMPORTING.format(width=4))
    (tmp_path / "needs.py").write_text(IMPORTING.format(width="gone_package.width()"))
    assert netweave.load(f"{tmp_path / 'net.py'}:build", trust=trust).layers
    with pytest.raises(CodeError, match=r"needs\.py:10: calls gone_package\.width, and 'gone_package'"):
        netweave.load(f"{tmp_path / 'needs.py'}:build", trust=trust)


NESTED = """import keras

L = keras.layers


def block(x, width):
    return L.Dense(width)(x)


def build():
    inner_data = L.Input((4,))
    inner = keras.Model(inner_data, L.Dense(4, name="deep")(inner_data), name="inner")
    x = data = L.Input((4,), name="data")
    x = L.ReLU(
        name="first",
    )(x)
    x = inner(x)
    return keras.Model(data, block(x, 3))
"""


@pytest.mark.slow
@needs_keras
def test_layers_stand_where_the_code_constructs_them(tmp_path):
    (tmp_path / "net.py").write_text(NESTED)
    layers = netweave.load(tmp_path / "net.py").layers
    lines = {layer.type: layer.origin.line for layer in layers.values() if layer.name != "inner/deep"}
    assert lines == {"InputLayer": 13, "ReLU": 14, "Dense": 7}
    assert layers["inner/deep"].origin.line == 12
    assert {Path(layer.origin.file).name for layer in layers.values()} == {"net.py"}


@pytest.mark.slow
@needs_keras
def test_code_cannot_write_the_lines_of_layers_itself(tmp_path):
    code = NESTED + "\n\nimport atexit\natexit.register(lambda: open('lines.json', 'w').write('[]'))\n"
    (tmp_path / "net.py").write_text(code)
    with pytest.raises(ReadError, match=r"net\.py: its code wrote to lines\.json"):
        netweave.load(tmp_path / "net.py")


SIZED = """import keras


def load():
    def build(height, width):
        image = keras.Input((height, width, 3))
        return keras.Model(image, keras.layers.Conv2D(2, 3)(image))

    return build
"""


@needs_keras
def test_a_function_of_the_size_is_called_with_that_of_the_input(tmp_path):
    (tmp_path / "net.py").write_text(SIZED)
    name = f"{tmp_path / 'net.py'}:load"
    net = netweave.load(name, trust=not has_guard())
    assert net.assumed == {net.inputs[0].name: (1, 224, 224, 3)}
    assert "the function that makes the model was called with height=224, width=224" in net.notes[-1]
    other = netweave.load(name, trust=not has_guard(), likely_shapes=[(1, 3, 20, 30)])
    assert list(other.assumed.values()) == [(1, 20, 30, 3)]
    (tmp_path / "net.py").write_text(SIZED.replace("width", "layers"))  # longer: else its bytecode holds
    with pytest.raises(UsageError, match=r"'load' makes a function, expected a keras\.Model"):
        netweave.load(name, trust=not has_guard())


def test_without_keras_the_files_are_written_and_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("netweave.formats.keras.code.find_spec", lambda name: None)
    net = residuals(tmp_path, 8)
    message = r"port\.py: is written, but could not be read back and compared: needs Keras on PyTorch"
    with pytest.raises(UnsupportedError, match=message):
        api.convert_and_verify(net, tmp_path / "port.py", to="keras", random_weights=True)
    assert (tmp_path / "port.py").is_file()
    assert (tmp_path / "port.npz").is_file()


def test_a_framework_that_has_no_such_files_is_refused(tmp_path):
    graph = load(model([node("Relu", "x", "y")], {"x": SIZES}, ["y"]), tmp_path)
    with pytest.raises(UsageError, match=r"for 'keras': unknown file name .*\.py \(Keras\)"):
        netweave.save(graph, tmp_path / "net.onnx", to="keras")
