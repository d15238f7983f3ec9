"""Parts of a net that repeat, put together as classes of blocks."""

from __future__ import annotations

from netweave.files.source_code.blocks import Block, parts_of
from netweave.files.source_code.forward import Field, Module, Step


class Net:
    """Steps one behind the other."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.last = "x"

    def step(self, template: str, *inputs: str, size: int | None = None) -> str:
        made = f"v{len(self.steps)}"
        module = None if size is None else Module("nn.Linear", (Field("in_features", size),))
        self.steps.append(Step(made, (made,), template, inputs, (made,), module))
        self.last = made
        return made

    def branch(self, size: int, activation: str) -> None:
        """Two modules around an activation, and the sum with what went in."""
        entry = self.last
        inner = self.step("{m}({0})", entry, size=size)
        inner = self.step(activation, inner)
        self.step("{0} + {1}", self.step("{m}({0})", inner, size=size), entry)

    def parts(self) -> list[Step | Block]:
        return parts_of(self.steps, ["x"], [self.last])


def blocks(parts: list[Step | Block]) -> list[Block]:
    return [part for part in parts if isinstance(part, Block)]


def all_steps(parts: list[Step | Block]) -> list[Step]:
    return [step for part in parts for step in (part.steps if isinstance(part, Block) else [part])]


def test_two_parts_that_take_turns_are_one_block():
    """A transformer: attention and the dense layers behind it, each with its own sum."""
    net = Net()
    for _ in range(3):
        net.branch(8, "attend({0})")
        net.branch(8, "F.gelu({0})")
    parts = net.parts()
    assert [len(block.steps) for block in blocks(parts)] == [8, 8, 8]
    assert len({id(block.kind) for block in blocks(parts)}) == 1
    assert [block.entry for block in blocks(parts)] == ["x", "v7", "v15"]
    assert [block.exit for block in blocks(parts)] == ["v7", "v15", "v23"]
    assert all_steps(parts) == net.steps


def test_what_follows_and_goes_before_is_left_alone():
    net = Net()
    net.step("{m}({0})", "x", size=3)
    for _ in range(2):
        net.branch(8, "attend({0})")
        net.branch(8, "F.gelu({0})")
    net.step("{m}({0})", net.last, size=5)
    parts = net.parts()
    assert [type(part) for part in parts] == [Step, Block, Block, Step]
    assert all_steps(parts) == net.steps


def test_parts_of_one_form_are_a_block_each():
    """A residual net: the same part again and again is no pair."""
    net = Net()
    for _ in range(4):
        net.branch(8, "torch.relu({0})")
    assert [len(block.steps) for block in blocks(net.parts())] == [4, 4, 4, 4]


def test_stages_of_other_sizes_are_no_period():
    net = Net()
    for size in (8, 16):
        net.branch(size, "attend({0})")
        net.branch(size, "F.gelu({0})")
    found = blocks(net.parts())
    assert [len(block.steps) for block in found] == [4, 4, 4, 4]
    assert [block.arguments for block in found] == [(8,), (8,), (16,), (16,)]


def test_a_period_that_breaks_off_ends_there():
    net = Net()
    for _ in range(2):
        net.branch(8, "attend({0})")
        net.branch(8, "F.gelu({0})")
    net.branch(8, "attend({0})")
    parts = net.parts()
    assert [len(block.steps) for block in blocks(parts)] == [8, 8]
    assert all_steps(parts) == net.steps


def test_what_is_read_far_behind_belongs_to_no_block():
    net = Net()
    net.branch(8, "attend({0})")
    inner = net.steps[1].outputs[0]
    net.branch(8, "attend({0})")
    parts = parts_of(net.steps, ["x"], [net.last, inner])
    assert blocks(parts) == []
    assert all_steps(parts) == net.steps
