"""The GitHub Action and the hook of pre-commit: their steps as a runner takes them."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.viewer import nets as example

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]

ACTION = yaml.safe_load((ROOT / "deploy" / "github-action" / "action.yml").read_text(encoding="utf-8"))

HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def step(name: str) -> dict:
    return next(step for step in ACTION["runs"]["steps"] if step.get("name") == name)


def run_step(folder: Path, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run the comparison as GitHub's runner does: expressions are in the environment, not in the script."""
    values = {name: given.get("default", "") for name, given in ACTION["inputs"].items()} | inputs
    compare = step("Compare")
    assert "${{" not in compare["run"]
    variables = {
        name: values[re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", text)[1]]
        for name, text in compare["env"].items()
    }
    (folder / "bin").mkdir()
    for command, module in (("netweave", "-m netweave"), ("python", "")):
        script = folder / "bin" / command
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        script.chmod(0o755)
    files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    environment = {
        **os.environ,
        **variables,
        **{name: str(file) for name, file in files.items()},
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", compare["run"]],
        cwd=folder,
        env=environment,
        check=False,
        timeout=120,
    )
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return done.returncode, outputs, files["GITHUB_STEP_SUMMARY"].read_text()


@pytest.fixture
def nets(tmp_path):
    example.write_example(tmp_path)
    return tmp_path


def test_a_port_that_differs_fails_the_job_and_is_shown_at_its_lines(nets):
    status, outputs, summary = run_step(nets, a="leaves.prototxt", b="leaves-symbol.json")
    assert (status, outputs["status"]) == (1, "1")
    assert outputs["headline"].startswith("different at ")
    assert outputs["headline"] in " ".join(summary.split())
    sarif = json.loads((nets / "netweave.sarif").read_text())
    assert sarif["runs"][0]["results"][0]["locations"]


def test_an_equal_net_passes(nets):
    status, outputs, _ = run_step(nets, a="leaves.prototxt", b="leaves.prototxt", options="--strict --all")
    assert (status, outputs["status"]) == (0, "0")


def test_names_are_never_run_by_the_shell(nets):
    status, outputs, summary = run_step(nets, a="$(touch made).prototxt", b="`touch made`")
    assert (status, outputs) == (2, {"status": "2"})
    assert not (nets / "made").exists()
    assert "```text" in summary


def test_the_hook_of_pre_commit_runs_the_command(netweave):
    (hook,) = HOOKS
    command, *arguments = shlex.split(hook["entry"])
    assert command == "netweave"
    assert netweave(*arguments, "--help").status == 0
    manifest = pytest.importorskip("pre_commit.clientlib")
    assert manifest.load_manifest(ROOT / ".pre-commit-hooks.yaml")
