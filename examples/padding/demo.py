"""The main job in four steps: compare a net with its port, read what is wrong, mend it, prove it equal.

``leaves.prototxt`` is a net for Caffe, ``leaves-symbol.json`` its port to MXNet. The port pools with a
border where Caffe lets the last window hang over: the sizes agree, the values do not. Run it with
``make demo``, or with ``python -m examples.padding.demo`` in the folder above ``examples``.
"""

from __future__ import annotations

import difflib
import os
import sys
from pathlib import Path

from examples.story import netweave, python, say

HERE = Path(__file__).parent
NET = HERE / "leaves.prototxt"
PORT = HERE / "leaves-symbol.json"
PORT_WEIGHTS = HERE / "leaves-0000.params"
MENDED = HERE / "mended-symbol.json"

WRONG = '"stride": "(2, 2)", "pad": "(1, 1)"'
RIGHT = '"stride": "(2, 2)", "pad": "(0, 0)", "pooling_convention": "full"'
"""The fix of the first comparison, in the layer ``down1``."""


def mend(file: Path = MENDED) -> None:
    """Write a copy of the port with the fix in it, and show what changed."""
    before = PORT.read_text()
    if before.count(WRONG) != 1:
        raise SystemExit(f"{PORT.name} is not as it was: it has {before.count(WRONG)} times {WRONG}")
    after = before.replace(WRONG, RIGHT)
    file.write_text(after)
    changes = difflib.unified_diff(
        before.splitlines(), after.splitlines(), PORT.name, file.name, n=1, lineterm=""
    )
    print("\n".join(changes))


def main() -> int:
    """Return 0 if everything went as told."""
    say("Draw weights, the same for both nets, and write them as Caffe and as MXNet store them.")
    python(HERE / "make_weights.py")

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
