"""Modules that are executed late: when something of them is used, once, and whole before what is inside."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import netweave
from netweave.deferred import FORMULAS, Table, _Deferred, defer
from netweave.graph import GraphBuilder, Parameter


@pytest.fixture
def late(tmp_path, monkeypatch):
    """A package with a module inside; the list says in which order they were executed."""
    package = tmp_path / "late_package"
    package.mkdir()
    note = "import sys\nsys.late_order.append(__name__)\n"
    (package / "__init__.py").write_text(f"{note}import time\ntime.sleep(0.05)\nVALUE = 3\n")
    (package / "inside.py").write_text(f"{note}from late_package import VALUE\n")
    (tmp_path / "broken_late.py").write_text("raise ImportError('it needs something')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "late_order", [], raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    defer({"late_package", "broken_late"})
    yield sys.late_order
    for name in [name for name in sys.modules if name.startswith(("late_package", "broken_late"))]:
        del sys.modules[name]


@pytest.mark.parametrize("ask", [len, list, lambda table: table["inside"], lambda table: "other" in table])
def test_a_table_imports_its_modules_when_a_row_is_looked_up(late, tmp_path, ask):
    package = tmp_path / "late_package"
    rows = "for name, row in sys.late_rows:\n    sys.late_table[name] = row\n"
    (package / "rows.py").write_text(f"import sys\nsys.late_order.append(__name__)\n{rows}")
    table = sys.late_table = Table("late_package", ("rows", "inside"))
    sys.late_rows = [("inside", 1), ("outside", 2)]
    try:
        table["own"] = 3
        assert not late
        ask(table)
        assert late == ["late_package", "late_package.rows", "late_package.inside"]
        assert dict(table) == {"own": 3, "inside": 1, "outside": 2}
    finally:
        del sys.late_table, sys.late_rows


def test_a_module_is_executed_when_it_is_used(late):
    import late_package
    import late_package as again

    assert again is late_package
    assert not late
    assert late_package.VALUE == 3
    assert late == ["late_package"]
    assert type(late_package) is not _Deferred
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = late_package.missing
    assert late == ["late_package"]


def test_the_import_of_a_module_inside_executes_it_first(late):
    import late_package.inside

    assert late == ["late_package", "late_package.inside"]
    assert late_package.inside.VALUE == 3


def test_threads_wait_for_each_other(late):
    import late_package

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: late_package.VALUE, range(8))) == [3] * 8
    assert late == ["late_package"]


def test_its_error_is_raised_where_it_is_used(late):
    import broken_late

    with pytest.raises(ImportError, match="it needs something"):
        _ = broken_late.VALUE


def test_nets_of_fixed_sizes_are_compared_without_sympy(tmp_path):
    """What ``netweave compare`` loads is what takes its time."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (1, 3, 8, 8), batch=False)
    filters = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    w = builder.parameter(Parameter("w", filters.shape), filters)
    y = builder.add("Relu", [builder.add("Conv", [x, w])])
    netweave.save(
        builder.finish([builder.add("MaxPool", [y], {"kernel_shape": (2, 2)})]), tmp_path / "a.onnx"
    )
    program = (
        "import sys; from netweave.cli import main\n"
        "try: main()\n"
        f"finally: print('late:', *{{type(sys.modules[n]).__name__ for n in {sorted(FORMULAS)}}})"
    )
    command = [sys.executable, "-c", program, "compare", "a.onnx", "a.onnx"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "late: _Deferred\n" in found.stdout, found
    assert found.returncode == 0, found
