"""``netweave train --memory`` on several ranks: the limit is that of each, and every bit stays the same."""

from __future__ import annotations

import re

import pytest

from netweave.runtime.memory_plan import parse_bytes
from tests.training.parallel import nets
from tests.training.parallel.command import NET, arrays, finish, is_equal, start, write

pytestmark = [pytest.mark.multi, pytest.mark.slow]

STEPS = 12
RANKS = ("--devices", "cpu:2", "--batch", "split", "--seed", "4")
NORMALISED = NET.replace(nets.NETS["mlp"], nets.NETS["resnet"])


def needed(output):
    return parse_bytes(re.search(r"needs at least ([\d.]+ \w+)", output)[1])


@pytest.mark.parametrize("stages", [(), ("--exchange", "owner"), ("--compress", "fp16")])
def test_ranks_with_as_little_memory_as_it_takes_end_with_the_same_bits(tmp_path, stages):
    write(tmp_path, steps=STEPS, net=NORMALISED)
    arguments = (*RANKS, *stages, "--no-sync-batch-norm")
    status, output = finish(start(tmp_path, *arguments))
    assert status == 0, output
    expected = arrays(tmp_path, STEPS)

    status, output = finish(start(tmp_path, *arguments, "--memory", "1kB"))
    assert status == 2
    assert output.count("needs at least") == 1, output
    assert "training with batches of 5" in output
    status, output = finish(start(tmp_path, *arguments, "--memory", str(int(needed(output) * 1.01))))
    assert status == 0, output
    assert is_equal(arrays(tmp_path, STEPS), expected)


def test_a_batch_that_is_normalised_over_ranks_has_no_plan(tmp_path):
    write(tmp_path, steps=STEPS, net=NORMALISED)
    status, output = finish(start(tmp_path, *RANKS, "--memory", "1GB"))
    assert status == 2
    assert output.count("use --no-sync-batch-norm") == 1, output
    assert "bn1" in output
