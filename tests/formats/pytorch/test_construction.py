"""Model sources as they lie in somebody's repository: loaded by one name, without editing them."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

import netweave
from netweave.errors import CodeError, UnsupportedError, UsageError
from netweave.files import sandbox
from netweave.files.missing_modules import Absent

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3)
        self.head = nn.Conv2d(
            width,
            classes,
            1,
        )

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)))
"""

SHAPES = {"x": (1, 3, 16, 16)}


def lay(folder: Path, files: dict[str, str]) -> Path:
    """Write files of a repository, and return its folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def load(net: object, **options: object) -> netweave.Graph:
    options.setdefault("input_shapes", SHAPES)
    return netweave.load(str(net), trust=not sandbox.has_guard(), **options)


def channels(graph: netweave.Graph) -> list[int]:
    return [tuple(value.shape)[1] for value in graph.outputs]


def test_arguments_settings_and_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, {"pkg/net.py": NET, "net.json": '{"model": {"classes": 6, "lr": 0.1}}'})
    assert channels(load(f"{tmp_path}/pkg/net.py:Net(5, width=4)")) == [5]
    assert channels(load(f"{tmp_path}/pkg/net.py", config=f"{tmp_path}/net.json:model")) == [6]
    assert channels(load("pkg.net:Net(classes=7)", root=tmp_path)) == [7]
    monkeypatch.chdir(tmp_path)
    assert channels(load("pkg.net:Net", config={"classes": 8})) == [8]
    with pytest.raises(UsageError, match=r"with arguments: Net\(classes, width=8\)"):
        load("pkg/net.py")


def test_a_layer_says_where_it_is_constructed_and_where_it_is_called(tmp_path: Path) -> None:
    path = lay(tmp_path, {"net.py": NET}) / "net.py"
    layers = load(f"{path}:Net(5)").layers
    lines = {
        name: (layer.origin.line, layer.definition.line)
        for name, layer in layers.items()
        if layer.definition and layer.origin
    }
    assert lines == {"conv": (16, 8), "head": (16, 9)}


HELPER = """
from torch import nn
from parts.helper import conv

class Block(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.body = conv(3, 3, step)

    def forward(self, x):
        return self.body(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(1),
                                    Block(2))

    def forward(self, x):
        return self.blocks(x)
"""

CONV = """
from torch import nn

def conv(a, b, s):
    return nn.Sequential(nn.Conv2d(a, b, 3, s), nn.ReLU())
"""


def test_a_layer_says_which_lines_called_the_functions_that_construct_it(tmp_path: Path) -> None:
    lay(tmp_path, {"net.py": HELPER, "parts/helper.py": CONV})
    layers = load(f"{tmp_path}/net.py:Net").layers
    for number, line in ((0, 16), (1, 17)):
        layer = layers[f"blocks.{number}.body.0"]
        assert layer.definition.line == 5
        assert layer.definition.file.endswith("helper.py")
        assert [place.line for place in layer.callers] == [8, line]
        assert all(place.file.endswith("net.py") for place in layer.callers)


def test_a_fix_changes_the_line_that_constructs_the_module(tmp_path: Path) -> None:
    text = NET.replace("3, width, 3)", "3, width, 3, padding=1)")
    lay(tmp_path, {"a.py": NET, "b.py": text})
    comparison = netweave.compare(load(f"{tmp_path}/a.py:Net(5)"), load(f"{tmp_path}/b.py:Net(5)"))
    assert {finding.place_b for finding in comparison.findings if finding.edits} == {f"{tmp_path}/b.py:8"}


FACTORY = "from parts.net import Net\n\ndef make():\n    return Net(4)\n"


def test_a_factory_without_an_import_of_torch(tmp_path: Path) -> None:
    assert channels(load(lay(tmp_path, {"parts/net.py": NET, "make.py": FACTORY}) / "make.py")) == [4]


def test_wrappers_gpus_options_and_downloads_are_no_obstacle(tmp_path: Path) -> None:
    text = (
        NET
        + """
import argparse
args = argparse.ArgumentParser().parse_args()

class Lit(Net):
    def forward(self, x):
        return super().forward(x.cuda() + torch.zeros(1, device="cuda"))

def make():
    net = Lit(5).cuda()
    state = torch.hub.load_state_dict_from_url(url="https://host/backbone.pth", progress=True)
    net.load_state_dict({k: v for k, v in state["model"].items()})
    net.load_state_dict(torch.load("gone.pth", map_location="cpu"))
    return nn.DataParallel(net)
"""
    )
    graph = load(lay(tmp_path, {"net.py": text}) / "net.py")
    assert channels(graph) == [5]
    notes = "; ".join(graph.notes)
    assert (
        "its code downloads 'https://host/backbone.pth', which is not here: these weights are drawn" in notes
    )
    assert "its code loads 'gone.pth'" in notes
    assert graph.initial


def test_what_torchscript_would_compile_is_traced_as_python(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        @torch.jit.script
        def after_the_net(x: torch.Tensor):
            return torch.ops.not_registered_here.nms(x)

        @torch.jit.script
        def swish(x: torch.Tensor):
            return x * torch.sigmoid(x)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(3, 4, 3)

            def forward(self, x):
                return swish(self.conv(x))
        """
    graph = load(lay(tmp_path, {"net.py": text}) / "net.py:Net")
    assert "Sigmoid" in {node.op_type for node in graph.nodes}


def test_a_net_that_writes_to_tensorboard_is_read_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, and as if the package that ``torch.utils.tensorboard`` needs were not installed."""
    from netweave.formats.pytorch import construction

    text = NET.replace("import nn", "import nn\nfrom torch.utils.tensorboard import SummaryWriter as Gone", 1)
    path = lay(tmp_path, {"net.py": text}) / "net.py"
    monkeypatch.setattr(construction, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    request = {"trusted_folder": None, "place": "net.py", "net": str(path), "name": "netweave_model"}
    request |= {"missing": [], "templates": {}, "folders": [], "first": [], "is_own_used": True}
    request |= {"entry": "Net", "arguments": "5", "weights": None}
    module = construction.module_from_code(request, [])
    assert module.head.out_channels == 5
    assert isinstance(sys.modules.pop("netweave_model").Gone, Absent)


def test_a_constructor_may_be_given_an_example_of_its_input(tmp_path: Path) -> None:
    text = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self, example):
                super().__init__()
                self.conv = nn.Conv2d(3, 4, 3)
                self.head = nn.Linear(self.conv(example).numel(), 5)

            def forward(self, x):
                return self.head(self.conv(x).flatten(1))
        """
    graph = load(f"{lay(tmp_path, {'net.py': text}) / 'net.py:Net'}(torch.zeros(1, 3, 16, 16))")
    assert graph.parameters["head.weight"].shape == (5, 4 * 14 * 14)


def test_a_class_of_lightning_is_a_module_without_it(tmp_path: Path) -> None:
    text = NET.replace("class Net(nn.Module)", "import gone_lightning as pl\n\nclass Net(pl.LightningModule)")
    text = text.replace(
        "super().__init__()", "super().__init__(); self.save_hyperparameters(); assert self.hparams.width"
    )
    net = f"{lay(tmp_path, {'net.py': text}) / 'net.py'}:Net(5)"
    state = {f"net.{name}": value for name, value in nn_state(5).items()}
    torch.save({"state_dict": state | {"loss.weight": torch.zeros(1)}, "epoch": 3}, tmp_path / "net.ckpt")
    graph = load(f"{net},{tmp_path}/net.ckpt")
    assert channels(graph) == [5]
    assert any("the arrays under 'net.' are used; 1 others" in note for note in graph.notes)
    assert not graph.initial


def nn_state(classes: int) -> dict[str, object]:
    net = torch.nn.ModuleDict({"conv": torch.nn.Conv2d(3, 8, 3), "head": torch.nn.Conv2d(8, classes, 1)})
    return dict(net.state_dict())


READS = """
import torch, far_helper
from net import Net

def make():
    return Net(int(open('widths.txt').read()), far_helper.WIDTH)
"""


def test_trust_runs_code_as_its_user_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, {"repo/net.py": NET, "repo/made.py": READS, "repo/widths.txt": "6"})
    lay(tmp_path, {"far/far_helper.py": "WIDTH = 4"})
    monkeypatch.chdir(tmp_path / "repo")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}/far")
    monkeypatch.syspath_prepend(tmp_path / "far")  # as in a process that was started with it
    assert channels(netweave.load("made.py", trust=True, input_shapes=SHAPES)) == [6]
    if sandbox.has_guard():
        with pytest.raises(CodeError, match="--trust"):
            netweave.load("made.py", input_shapes=SHAPES)


@pytest.mark.guarded
def test_a_file_that_the_sandbox_hides_is_an_error_that_names_trust(tmp_path: Path) -> None:
    if not sandbox.has_guard():
        pytest.skip("there is no guard here")
    path = lay(tmp_path, {"net.py": NET + "\nwidths = open('/etc/hostname').read()\n"}) / "net.py"
    with pytest.raises(CodeError, match=r"net.py:\d+: its code fails: FileNotFoundError.*--trust"):
        netweave.load(f"{path}:Net(5)", input_shapes=SHAPES)


def test_a_folder_of_hugging_face_needs_transformers(tmp_path: Path) -> None:
    lay(tmp_path, {"config.json": '{"model_type": "bert", "architectures": ["BertModel"]}'})
    try:
        import transformers  # noqa: F401  # type: ignore[import-not-found]
    except ImportError:
        with pytest.raises(UnsupportedError, match="pip install transformers"):
            netweave.load(tmp_path, trust=True)
    else:
        pytest.skip("transformers is installed")


def test_an_installed_package_is_named_as_it_is_imported(tmp_path: Path) -> None:
    net = "torch.nn.modules.transformer:TransformerEncoderLayer(8, 2, 16, batch_first=True)"
    graph = load(net, input_shapes={"src": (1, 5, 8)})
    assert [tuple(value.shape)[1:] for value in graph.outputs] == [(5, 8)]
    files = {layer.origin.file for layer in graph.layers.values() if layer.origin is not None}
    assert {file.rpartition("/torch/")[2] for file in files} == {"nn/modules/transformer.py"}


CONFIGURED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, settings, names=()):
        super().__init__()
        channels = [int(line) for path in [settings["file"], *names] for line in open(path)]
        self.convs = nn.Sequential(*(nn.Conv2d(a, b, 1) for a, b in zip([3, *channels], channels)))

    def forward(self, x):
        return self.convs(x)
"""


def test_files_that_the_arguments_name_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, {"pkg/net.py": CONFIGURED, "cfg/a.txt": "4\n5\n", "cfg/b.txt": "6\n"})
    monkeypatch.chdir(tmp_path)
    assert channels(load("pkg/net.py:Net({'file': 'cfg/a.txt'})")) == [5]
    assert channels(load("pkg/net.py:Net({'file': 'cfg/a.txt'}, names=['cfg/b.txt'])")) == [6]
    if sandbox.has_guard():
        with pytest.raises(CodeError, match=r"FileNotFoundError.*cfg/a.txt"):
            load("pkg/net.py:Net({'file': 'cfg/a.txt'})", around=False)


def test_an_argument_that_is_no_literal_is_pointed_out(tmp_path: Path) -> None:
    text = NET.replace("width=8):", "width=8):\n        width = classes.shape[1]")
    path = lay(tmp_path, {"net.py": text}) / "net.py"
    with pytest.raises(
        CodeError, match=r"net.py:7: .*AttributeError: .*; its arguments are literals: .*write a"
    ):
        load(f"{path}:Net([1, 3])")
