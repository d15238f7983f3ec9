"""What the examples' demos have in common: they show commands, run them, and say why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def say(text: str) -> None:
    """Print a line of the story."""
    print(f"\n# {text}", flush=True)


def python(script: Path, *arguments: str) -> None:
    """Run a script of an example; it must succeed."""
    subprocess.run([sys.executable, script, *arguments], check=True)


def netweave(*arguments: str | Path) -> int:
    """Show a command, run it, and return its exit status."""
    words = [os.path.relpath(part) if isinstance(part, Path) else part for part in arguments]
    print(f"$ netweave {' '.join(words)}\n", flush=True)
    status = subprocess.run([sys.executable, "-m", "netweave", *words], check=False).returncode
    print(f"\n(exit status {status})", flush=True)
    return status
