"""Writes the text that the net of characters learns from: Netweave's own how-to guides, one after the other.

    python make_data.py                  # text.txt and vocab.txt beside this file
    python make_data.py --text FILE      # of a text of one's own

The guides are read as text of printable ASCII characters: others, and lines of code, are left out. A text of
one's own keeps all its characters. ``vocab_size`` and ``num_output`` in ``job.conf`` are the number of
characters that this script prints.
"""

from __future__ import annotations

import argparse
import string
from pathlib import Path

HERE = Path(__file__).parent
GUIDES = HERE.parents[2] / "docs" / "how-to"
KEPT = {*string.ascii_letters, *string.digits, *" .,;:!?'()-/_\n"}


def guides() -> str:
    """Return the prose of the guides, in the order of their names."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(GUIDES.glob("*.md"))]
    lines = [
        line for text in texts for line in text.splitlines() if not line.startswith(("    ", "|", "```"))
    ]
    return "".join(character for character in "\n".join(lines) if character in KEPT)


def write(folder: Path, text: str | None = None) -> None:
    """Write a text and its vocabulary, by default those of the guides, into a folder."""
    whole = guides() if text is None else text
    characters = sorted({*whole} if text is not None else KEPT)
    (folder / "text.txt").write_text(whole, encoding="utf-8")
    (folder / "vocab.txt").write_text("".join(characters), encoding="utf-8")
    print(f"text.txt: {len(whole):,} characters; vocab.txt: {len(characters)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--text", metavar="FILE", type=Path, help="take this text")
    file = parser.parse_args().text
    write(HERE, file.read_text(encoding="utf-8") if file else None)
