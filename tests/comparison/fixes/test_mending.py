"""Fixes of one comparison together: all in the text, or refused with a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison import OPERATOR, Comparison, Edit, Evidence, Finding, Group, Status, Verdict
from netweave.comparison.fixes import mend
from netweave.comparison.result.report import NetRecord
from netweave.graph import Layer, LayerTable, Origin

if TYPE_CHECKING:
    from pathlib import Path

BLOCK = """class Block(nn.Module):
    def __init__(self, step):
        self.first = nn.Conv2d(
            8,
            8
        )
        self.second = nn.Conv2d(8, 8, 3, stride=step)

blocks = [
    Block(1),
    Block(2),
    Block(3),
]
"""


def comparison(file: Path, steps: dict[str, tuple[int, int]], wanted: dict[str, int]) -> Comparison:
    """Compare blocks, made by the lines from the tenth on, by the steps that their layers have and want."""
    layers, findings = [], []
    for number, (name, own) in enumerate(steps.items()):
        for place, (line, layer) in enumerate(((3, "first"), (7, "second"))):
            layers.append(
                Layer(
                    f"{name}.{layer}",
                    f"{name}.{layer}",
                    "Conv2d",
                    {"stride": own[place], "eps": 1},
                    origin=Origin(str(file), 99),
                    definition=Origin(str(file), line),
                    callers=(Origin(str(file), 10 + number),),
                )
            )
            if (value := wanted.get(f"{name}.{layer}")) is not None:
                edits = (Edit("stride", str(value)),)
                fix = f"stride={value}"
                findings.append(
                    Finding("stride", "", fix, "", f"{file}:{line}", "a", layers[-1].name, edits=edits)
                )
    groups = tuple(Group((), (), (), (), Evidence.NAME, Status.DIFFERENT, finding=f) for f in findings)
    file.write_text(BLOCK)
    nets = (NetRecord(name, "pytorch", (str(file),), LayerTable(layers)) for name in "ab")
    return Comparison(*nets, Verdict.DIFFERENT, "", groups)


def test_lines_that_are_added_move_none_that_is_changed_later(tmp_path):
    steps = {"0": (1, 1), "1": (1, 2), "2": (1, 3)}
    found = comparison(tmp_path / "net.py", steps, {"0.first": 2, "1.first": 2, "2.first": 2, "2.second": 4})
    mended = mend(found)
    assert not mended.refused
    assert len(mended.applied) == 4
    (text,) = mended.after.values()
    assert text == BLOCK.replace("            8\n", "            8,\n            stride=2\n").replace(
        "(3)", "(4)"
    )


def test_a_parameter_is_not_changed_and_given_to_another_layer_at_once(tmp_path):
    """The first layers are to have the step of the block, which would then be another in the second block."""
    steps = {"0": (1, 1), "1": (1, 2), "2": (1, 3)}
    wanted = {"1.first": 2, "2.first": 3, "1.second": 1}
    found = comparison(tmp_path / "net.py", steps, wanted)
    mended = mend(found)
    (refusal,) = mended.refused
    assert refusal.finding.layer_b == "1.second"
    assert "compare again" in refusal.why
    (text,) = mended.after.values()
    assert text == BLOCK.replace("            8\n", "            8,\n            stride=step\n")


def test_all_calls_of_a_line_are_changed_once_for_all_of_their_layers(tmp_path):
    file = tmp_path / "net.py"
    text = "body = nn.Sequential(nn.ReLU6(), nn.Conv2d(8, 8, 3), nn.ReLU6(), nn.ReLU6())\n"
    edits = (Edit(OPERATOR, "nn.ReLU()"),)
    names = ("body.0", "body.2", "body.3")
    layers = [Layer(name, name, "ReLU6", definition=Origin(str(file), 1)) for name in names]
    findings = [Finding("operator", "", "use", "", f"{file}:1", "a", name, edits=edits) for name in names]
    file.write_text(text)
    for wanted, applied in ((findings, 3), (findings[:2], 0)):  # all, or not the last one
        groups = tuple(Group((), (), (), (), Evidence.NAME, Status.DIFFERENT, finding=f) for f in wanted)
        nets = (NetRecord(name, "pytorch", (str(file),), LayerTable(layers)) for name in "ab")
        mended = mend(Comparison(*nets, Verdict.DIFFERENT, "", groups))
        assert len(mended.applied) == applied, mended.refused
        assert list(mended.after.values()) == ([text.replace("ReLU6", "ReLU")] if applied else [])
