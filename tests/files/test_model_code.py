"""Which class or function of a file constructs its model, and with which arguments."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from netweave.errors import UsageError
from netweave.files.model_imports import Wanted, construct, imported, own_factories
from netweave.files.python_code import Settings


class Base:
    def __init__(self, *arguments, **named):
        self.told = (arguments, named)


def code(text: str) -> ModuleType:
    module = ModuleType("file")
    module.Base = Base
    exec(text, vars(module))
    return module


def wanted(entry=None, arguments="", config=None) -> Wanted:
    return Wanted(Base, "a base", "net.py", entry, arguments, config)


def made(text: str, **told):
    module = code(text)
    classes, functions = own_factories(module, Base)
    return construct(module, classes if len(classes) == 1 else functions or classes, wanted(**told))


NET = "class Net(Base):\n    def __init__(self, classes, depth=18): super().__init__(classes, depth)\n"


def test_arguments_are_passed():
    assert made(NET, entry="Net", arguments="21").model.told[0] == (21, 18)
    assert made(NET, entry="Net", arguments="depth=50, classes=2").model.told[0] == (2, 50)


def test_scripts_construct_no_model():
    text = "def main(): 1 / 0\ndef test(): 1 / 0\ndef tiny(): return Base()\n"
    assert isinstance(made(text).model, Base)


def test_a_module_level_model_and_a_method_can_be_named():
    text = "class Net(Base):\n    @classmethod\n    def tiny(cls): return cls(1)\nready = Net(2)\n"
    assert made(text, entry="Net.tiny").model.told[0] == (1,)
    assert made(text, entry="ready").model.told[0] == (2,)


def test_settings_are_passed_by_name_or_whole():
    assert made(NET, config={"classes": 4, "lr": 0.1}).model.told[0] == (4, 18)
    assert made(NET, entry="Net", arguments="9", config={"depth": 50}).model.told[0] == (9, 50)
    whole = made(
        "class Net(Base):\n    def __init__(self, cfg): super().__init__(cfg.model.depth)",
        config={"model": {"depth": 3}},
    )
    assert whole.model.told[0] == (3,)
    anything = made("def make(**settings): return Base(**settings)", config={"a": 1})
    assert anything.model.told[1] == {"a": 1}


def test_settings_that_nothing_takes_are_said():
    assert made(
        "class Net(Base):\n    def __init__(self, x=1): super().__init__(x)", config={"y": 2}
    ).notes == ["the settings are not used: Net takes none of y"]


def test_settings_are_a_dict_and_attributes():
    settings = Settings({"a": [{"b": 1}], "c": {"d": 2}})
    assert (settings.a[0].b, settings["c"].d, dict(settings)["c"]["d"]) == (1, 2, 2)
    with pytest.raises(AttributeError, match="the settings have no 'x'; there is: a, c"):
        settings.x  # noqa: B018


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, r"has 0 .*name it \(net.py:Net\(classes=...\)\); with arguments: Net\(classes, depth=18\)"),
        ({"entry": "Net"}, r"'Net' takes classes.*net.py:Net\(classes=...\).*Net\(classes, depth=18\)"),
        ({"entry": "Net", "arguments": "1, 2, 3"}, r"Net\(classes, depth=18\) does not take these arguments"),
        ({"entry": "Net", "arguments": "1, width=2"}, "does not take these arguments: got an unexpected"),
        ({"entry": "Nat"}, "has no class or function 'Nat'; has: Net"),
        ({"entry": "Net", "config": {"depth": {}, "lr": 1}, "arguments": "x=1"}, "does not take these"),
    ],
)
def test_what_is_missing_is_said_with_the_signature(told, message):
    with pytest.raises(UsageError, match=message):
        made(NET, **told)


def test_a_module_that_its_package_imports_is_not_run_twice(tmp_path, monkeypatch):
    import sys

    (tmp_path / "pack_once").mkdir()
    (tmp_path / "pack_once" / "__init__.py").write_text("from .net import Net\n")
    (tmp_path / "pack_once" / "net.py").write_text("import sys\nargv = list(sys.argv)\nclass Net: pass\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["child.py", "request"])
    path = tmp_path / "pack_once" / "net.py"
    module = imported(path, name="pack_once.net", folders=[str(tmp_path)])
    assert module.Net is sys.modules["pack_once"].Net
    assert module.argv == [str(path)]
    for name in ("pack_once", "pack_once.net"):
        monkeypatch.delitem(sys.modules, name)


def test_a_module_does_not_stand_in_the_way_of_the_package_of_its_name(tmp_path, monkeypatch):
    import sys

    inner = tmp_path / "own_name" / "models"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").write_text("")
    (inner / "own_name.py").write_text("WIDTH = 3\n")
    (inner / "net.py").write_text("from .own_name import WIDTH\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["child.py", "request"])
    module = imported(
        inner / "net.py", name="own_name.models.net", folders=[str(tmp_path)], is_own_used=False
    )
    assert module.WIDTH == 3
    for name in [name for name in sys.modules if name.startswith("own_name")]:
        monkeypatch.delitem(sys.modules, name)


def test_an_array_among_the_arguments_is_what_the_framework_takes():
    file = code("class Net(Base): pass")
    asked = Wanted(
        Base, "a base", "net.py", "Net", "torch.ones(2, 3), x=zeros((4,))", as_tensor=np.ndarray.tolist
    )
    (array,), named = construct(file, {"Net": file.Net}, asked).model.told
    assert array == [[1.0] * 3] * 2
    assert named == {"x": [0.0] * 4}
