"""``tools/audit`` says that there are no known flaws only when every package was looked up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "tools" / "audit"

FLAW = {"id": "CVE-1", "fix_versions": ["2.0"]}


def package(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "version": "1.0", "vulns": [], **more}


@pytest.fixture
def audit(tmp_path):
    """Run the script with registries that answer as told; return its status and its words on Python."""

    def run(packages: object, *arguments: str) -> tuple[int, str]:
        for folder in ("tools", "frontend", "bin"):
            (tmp_path / folder).mkdir(exist_ok=True)
        shutil.copy(SCRIPT, tmp_path / "tools" / "audit")
        answer = "no network" if packages is None else json.dumps({"dependencies": packages})
        for name, said in (("pip-audit", answer), ("npm", "found 0 vulnerabilities")):
            (tmp_path / "bin" / f"{name}.answer").write_text(said)
            program = tmp_path / "bin" / name
            program.write_text(f'#!/bin/sh\ncat "{program}.answer"\n')
            program.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        command = [str(tmp_path / "tools" / "audit"), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.partition("npm: ")[0].strip()

    return run


def test_all_looked_up_and_none_flawed(audit):
    packages = [package("click"), package("netweave", skip_reason="is installed in place")]
    assert audit(packages, "--strict") == (0, "Python: no known flaws (2 of 2 packages looked up)")


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--strict",), 1)])
def test_packages_that_were_skipped_are_not_known_to_be_sound(audit, arguments, status):
    reason = "could not be found"
    found, words = audit([package("click", skip_reason=reason), package("numpy")], *arguments)
    assert found == status
    assert "no known flaws" not in words
    assert "skipped: click" in words


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--strict",), 1)])
def test_without_an_answer_nothing_is_known(audit, arguments, status):
    found, words = audit(None, *arguments)
    assert found == status
    assert words.startswith("Python: could not ask the registry")


def test_a_flaw_is_told_and_fails_also_where_others_were_skipped(audit):
    found, words = audit([package("click", vulns=[FLAW]), package("x", skip_reason="unknown")])
    assert found == 1
    assert "flaw: click 1.0: CVE-1, mended in 2.0" in words
