"""Where a module's own code returns its outputs."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from netweave.files.construction_lines import return_place  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "import torch\nfrom torch import nn\n\n"
ONE = (
    HEAD
    + "class Net(nn.Module):\n    def forward(self, x):\n        x = x + 1\n        return (\n        x)\n"
)

FORMS = {
    "one": (ONE, 7),
    "decorated": (ONE.replace("    def", "    @torch.no_grad\n    @staticmethod\n    def"), None),
    "inner function": (ONE.replace("x = x + 1", "f = lambda: 3\n        def g(): return 4"), 8),
    "two": (ONE.replace("x = x + 1", "if x is None: return 3"), None),
    "none": (ONE.replace("return (", "yield ("), None),
    "inherited": (ONE.replace("class Net", "class Base") + "class Net(Base):\n    pass\n", 7),
    "of a package": (HEAD + "class Net(nn.ReLU):\n    pass\n", None),
    "of a part as well": (
        ONE + "    def __init__(self, depth=1):\n        super().__init__()\n"
        "        self.part = Net(depth - 1) if depth else None\n",
        None,
    ),
    "with a hook": (
        ONE + "    def __init__(self):\n        super().__init__()\n"
        "        self.register_forward_hook(lambda module, given, made: made)\n",
        None,
    ),
    "replaced": (
        ONE + "    def __init__(self):\n        super().__init__()\n        self.forward = torch.relu\n",
        None,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_line_is_that_of_the_one_return_of_the_net_s_own_forward(tmp_path: Path, form: str) -> None:
    text, line = FORMS[form]
    path = tmp_path / "net.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("net_that_returns", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = return_place(module.Net(), {str(path)})
    assert found == (None if line is None else (str(path), line))
    assert return_place(module.Net(), set()) is None
