"""The material of trials with coding agents, and the check of what they hand in."""

from __future__ import annotations

import json
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.agents import run
from benchmarks.agents.hidden_inputs import INPUTS, SMALL
from benchmarks.agents.mistakes import MISTAKES
from benchmarks.agents.tasks import NETS, RIGHT, Task, draw_tasks, port_source, ports, with_sizes


def test_each_mistake_is_an_edit_of_one_place_that_leaves_python():
    for mistake in MISTAKES:
        source = port_source(Task(mistake.net, mistake.port, (mistake,), {}))
        compile(source, mistake.kind, "exec")
        assert source != (NETS / mistake.net / f"port_{mistake.port}.py").read_text()


def test_a_mistake_of_another_text_is_refused():
    mistake = MISTAKES[0]
    with pytest.raises(ValueError, match="occurs 0 times, expected once"):
        port_source(Task("mixer", "torch", (mistake,), {}))


def test_each_net_has_inputs_and_each_port_enough_mistakes_for_its_tasks():
    nets = {net for net, _ in ports()}
    assert nets == set(INPUTS) == set(SMALL)
    count = Counter(mistake.place for mistake in MISTAKES)
    assert all(count[place] >= 4 for place in ports())


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_draws_forty_tasks_of_which_ten_are_right_and_ten_have_two_mistakes(seed):
    tasks = draw_tasks(seed)
    assert Counter(len(task.mistakes) for task in tasks) == {0: 10, 1: 20, 2: 10}
    assert Counter(task.port for task in tasks if not task.mistakes) == RIGHT
    mistakes = [mistake for task in tasks for mistake in task.mistakes]
    assert len(set(mistakes)) == len(mistakes)
    assert draw_tasks(seed) == tasks


def test_sizes_replace_constants_of_the_module_alone():
    assert (
        with_sizes("WIDTH = 3\n    WIDTH = 3\nx = WIDTH", {"WIDTH": 5})
        == "WIDTH = 5\n    WIDTH = 3\nx = WIDTH"
    )


@pytest.mark.parametrize(
    "source", ["import original", "from original import Net", "open('original.py')", "def ("]
)
def test_a_port_that_takes_the_original_is_none(source):
    assert run.borrows(source)
    assert not run.borrows("import numpy\n'''As in the original.'''")


SIDE = """
def load(path):
    return open(path).read()
def run(net, *arrays):
    {body}
"""


@pytest.fixture
def material(tmp_path):
    """A folder with one task, whose original doubles its input."""
    truth = tmp_path / "truth" / "01"
    truth.mkdir(parents=True)
    (truth / "original.py").write_text(SIDE.format(body="return 2 * arrays[0]"))
    (truth / "weights.safetensors").write_text("none")
    task = {"task": "01", "net": "gpt", "port": "torch", "mistakes": ["a factor"]}
    (tmp_path / "truth" / "truth.json").write_text(json.dumps([task]))
    (tmp_path / "tasks" / "01").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("body", "answer", "expected"),
    [
        ("return arrays[0] + arrays[0]", "done: repaired", {"repaired": 1, "false_done": 0, "sure": 1}),
        ("return 2 * arrays[0].clip(max=60)", "done: repaired", {"repaired": 0, "false_done": 1}),
        ("return 2 * arrays[0][:, :21]", "done: unsure", {"repaired": 0, "false_done": 0, "unsure": 1}),
        ("raise KeyError(3)", "done: right", {"repaired": 0, "false_done": 1}),
    ],
)
def test_the_check_counts_what_was_repaired_and_what_was_called_done(
    material, body, answer, expected, capsys
):
    project = material / "tasks" / "01"
    (project / "port.py").write_text(SIDE.format(body=body))
    (project / "ANSWER.txt").write_text(answer)
    options = SimpleNamespace(folder=material, worked=None, python=sys.executable, seed=1)
    rows = run.check(options, run.read_truth(material))
    counts = run.summary(rows)
    assert counts | expected == counts
    assert "01 gpt/torch: was wrong (a factor)" in capsys.readouterr().out


def test_an_output_of_another_shape_or_without_a_number_is_wrong():
    x = np.array([1.0, -4.0])
    assert run.difference(x, x + np.array([0, 0.4])) == pytest.approx(0.1)
    assert run.difference(x, x[:1]) == np.inf
    assert run.difference(x, np.array([1.0, np.nan])) == np.inf
