"""The main job in four steps: compare a net with its port, read what is wrong, mend it, prove it equal.

``leaves.prototxt`` is a net for Caffe, ``leaves-symbol.json`` its port to MXNet. The port pools with a
border where Caffe lets the last window hang over: the sizes agree, the values do not. Run it with
``make demo``, or with the Python that Netweave is installed in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NET = HERE / "leaves.prototxt"
PORT = HERE / "leaves-symbol.json"
PORT_WEIGHTS = HERE / "leaves-0000.params"
MENDED = HERE / "mended-symbol.json"

FIX = {"pad": "(0, 0)", "pooling_convention": "full"}
"""What the first comparison says to change in the layer ``down1``."""


def say(text: str) -> None:
    """Print a line of the story."""
    print(f"\n# {text}", flush=True)


def netweave(*arguments: str | Path) -> int:
    """Show a command, run it, and return its exit status."""
    words = [os.path.relpath(part) if isinstance(part, Path) else part for part in arguments]
    print(f"$ netweave {' '.join(words)}\n", flush=True)
    status = subprocess.run([sys.executable, "-m", "netweave", *words], check=False).returncode
    print(f"\n(exit status {status})", flush=True)
    return status


def mend() -> None:
    """Write a copy of the port with the fix in it."""
    symbol = json.loads(PORT.read_text())
    (layer,) = [node for node in symbol["nodes"] if node["name"] == "down1"]
    before = dict(layer["attrs"])
    layer["attrs"].update(FIX)
    MENDED.write_text(json.dumps(symbol, indent=1))
    print(f"- {before}\n+ {layer['attrs']}")


def main() -> int:
    """Return 0 if everything went as told."""
    say("Draw weights, the same for both nets, and write them as Caffe and as MXNet store them.")
    subprocess.run([sys.executable, HERE / "make_weights.py"], check=True)

    say("Is the port the same net?")
    different = netweave("compare", NET, PORT)

    say("Do what the fix says, in a copy of the port.")
    mend()

    say("And now?")
    equal = netweave("compare", NET, f"{os.path.relpath(MENDED)},{os.path.relpath(PORT_WEIGHTS)}")

    if (different, equal) != (1, 0):
        print(f"\nexpected exit status 1 and then 0, found {different} and {equal}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
