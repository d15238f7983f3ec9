"""The samples are the project's examples, wherever Netweave is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from netweave.web.samples import samples


def test_the_second_sample_is_the_first_with_the_fix_in():
    first, second = samples()["padding"], samples()["mended"]
    assert first.a == second.a
    assert first.b["leaves-0000.params"] == second.b["leaves-0000.params"]
    changed = [
        (old, new)
        for old, new in zip(
            first.b["leaves-symbol.json"].splitlines(),
            second.b["leaves-symbol.json"].splitlines(),
            strict=True,
        )
        if old != new
    ]
    assert len(changed) == 1
    assert b"pooling_convention" in changed[0][1]


def test_samples_need_nothing_of_the_folder_that_the_workbench_is_started_in(tmp_path):
    source = Path(__file__).parents[2] / "src"
    script = "from netweave.web.samples import samples; print(*samples())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["padding", "mended"], done.stderr
