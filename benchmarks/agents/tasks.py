"""Tasks of a trial: projects with an original, its weights and a port that may be wrong, drawn by a seed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.agents.mistakes import MISTAKES, Mistake

NETS = Path(__file__).parent / "nets"

RIGHT = {"torch": 5, "jax": 2, "keras": 3}
"""Right ports of each framework; all others get a mistake, a third of them two."""

WEIGHTS = "weights.safetensors"

REPEATS = 2
"""Tasks of each port."""

CHOICES = {
    "WIDTH": {"gpt": (24, 32, 48), "llama": (32, 48, 64), "vit": (24, 32, 40)},
    "DEPTH": {"gpt": (2, 3, 4)},
}
"""Sizes that the seed draws where a net has the constant, beyond those that its file has."""

BRIEF = """# A port to check

`original.py` is a net in PyTorch, `weights.safetensors` holds its weights, and `port.py` is somebody's
port of it to {framework}. Both have `load(path)`, which returns the net with the weights of the file, and
`run(net, *arrays)`, which takes NumPy arrays and returns one.

The port may or may not be right. Make `port.py` compute what `original.py` computes with its weights, on
every input that `original.py` takes: any size, batch and value. Change nothing but `port.py`; it must not
import `original.py`, and it stays a port to {framework}.

When you have finished, write one line into `ANSWER.txt`:

- `done: right` if the port was right and you left it as it was;
- `done: repaired` if it was wrong and you are sure that it is right now;
- `done: unsure` if you are not sure that it is right now.
"""

FRAMEWORKS = {"torch": "PyTorch", "jax": "JAX", "keras": "Keras 3"}


@dataclass(frozen=True, slots=True)
class Task:
    """A task before it is written.

    Attributes:
        net: Folder of the net.
        port: Framework of the port.
        mistakes: What is wrong in it; nothing in a right port.
        sizes: Values of constants, in place of those in the files.
    """

    net: str
    port: str
    mistakes: tuple[Mistake, ...]
    sizes: dict[str, int]


def ports() -> list[tuple[str, str]]:
    """Return all ports there are, by net and framework, in order."""
    return sorted((path.parent.name, path.stem.removeprefix("port_")) for path in NETS.glob("*/port_*.py"))


def draw_tasks(seed: int) -> list[Task]:
    """Return the tasks of a seed in the order in which they are handed out."""
    rng = random.Random(seed)
    places = [place for place in ports() for _ in range(REPEATS)]
    rng.shuffle(places)
    right = dict(RIGHT)
    used: set[Mistake] = set()
    tasks, num_broken = [], 0
    for net, port in places:
        sizes = {name: rng.choice(nets[net]) for name, nets in CHOICES.items() if net in nets}
        mistakes: tuple[Mistake, ...] = ()
        if right[port]:
            right[port] -= 1
        else:
            mistakes = draw_mistakes(rng, (net, port), used, count=2 if num_broken % 3 == 2 else 1)
            used.update(mistakes)
            num_broken += 1
        tasks.append(Task(net, port, mistakes, sizes))
    rng.shuffle(tasks)
    return tasks


def draw_mistakes(
    rng: random.Random, place: tuple[str, str], used: set[Mistake], *, count: int
) -> tuple[Mistake, ...]:
    """Return mistakes of one port that no other task has and that do not touch the same text."""
    left = [one for one in MISTAKES if one.place == place and one not in used]
    rng.shuffle(left)
    taken: list[Mistake] = []
    for one in left:
        if len(taken) < count and not any(one.old in other.old or other.old in one.old for other in taken):
            taken.append(one)
    return tuple(taken)


def port_source(task: Task) -> str:
    """Return the text of a task's port.

    Raises:
        ValueError: A mistake's text does not occur once.
    """
    text = (NETS / task.net / f"port_{task.port}.py").read_text()
    for mistake in task.mistakes:
        if text.count(mistake.old) != 1:
            raise ValueError(
                f"{task.net}/port_{task.port}.py: {mistake.old!r} of {mistake.kind!r} occurs "
                f"{text.count(mistake.old)} times, expected once; change the row in mistakes.py"
            )
        text = text.replace(mistake.old, mistake.new)
    return with_sizes(text, task.sizes)


def with_sizes(text: str, sizes: dict[str, int]) -> str:
    """Return a source with other values of its constants."""
    lines = text.split("\n")
    for name, value in sizes.items():
        lines = [f"{name} = {value}" if line.startswith(f"{name} = ") else line for line in lines]
    return "\n".join(lines)


def drawn_weights(source: str, seed: int) -> dict[str, np.ndarray]:
    """Return weights for an original, as different from each other as trained ones are.

    Embeddings are small, so that an eps matters; no bias, scale or mean is trivial; batch norms have the
    statistics of noise, changed a little.
    """
    import torch  # only those who write tasks need it

    scope: dict[str, object] = {"__name__": "original"}
    exec(compile(source, "original.py", "exec"), scope)  # our own text
    made = scope["Net"]
    assert isinstance(made, type)
    assert issubclass(made, torch.nn.Module)
    net = made()
    rng = np.random.default_rng(seed)
    weights = net.state_dict()
    for name, x in weights.items():
        if not name.endswith("num_batches_tracked"):
            x.copy_(torch.from_numpy(_drawn(rng, name, tuple(x.shape))))
    norms = [module for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    if norms:
        for norm in norms:
            norm.momentum = 1.0
        with torch.no_grad():
            net.train()(torch.from_numpy(rng.normal(size=(8, 3, 40, 40)).astype(np.float32)))
            for norm in norms:
                norm.running_mean += 0.1 * torch.from_numpy(rng.normal(size=norm.num_features))
                norm.running_var *= torch.from_numpy(np.exp(rng.uniform(-0.7, 0.3, norm.num_features)))
    return {name: x.numpy() for name, x in weights.items() if not name.endswith("num_batches_tracked")}


def _drawn(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    if name == "patch.bias":
        return 0.02 * rng.normal(size=shape)
    if name.endswith("bias") or "bias_" in name:
        return 0.2 * rng.normal(size=shape)
    if len(shape) == 1:
        return 1 + 0.3 * rng.normal(size=shape)
    if name.split(".")[0] in {"wte", "wpe", "embed_tokens", "words", "positions", "types", "cls", "pos"}:
        return 0.03 * rng.normal(size=shape)
    fan_in = max(int(np.prod(shape[1:])), 1)
    return rng.normal(size=shape) * 1.4 / np.sqrt(fan_in)


def write_tasks(folder: Path, seed: int) -> list[dict[str, object]]:
    """Write the tasks of a seed: ``tasks/NN`` for the agents, and ``truth``, which they must not see.

    Raises:
        FileExistsError: The folder has tasks already.
    """
    from safetensors.numpy import save_file  # as for torch

    truths: list[dict[str, object]] = []
    for number, task in enumerate(draw_tasks(seed), 1):
        original = with_sizes((NETS / task.net / "original.py").read_text(), task.sizes)
        truth = folder / "truth" / f"{number:02}"
        project = folder / "tasks" / f"{number:02}"
        truth.mkdir(parents=True)
        (truth / "original.py").write_text(original)
        (truth / "port.py").write_text(port_source(Task(task.net, task.port, (), task.sizes)))
        (truth / "given.py").write_text(port_source(task))
        save_file(drawn_weights(original, seed * 1000 + number), truth / WEIGHTS)
        project.mkdir(parents=True)
        for name, new in {"original.py": "original.py", "given.py": "port.py", WEIGHTS: WEIGHTS}.items():
            shutil.copyfile(truth / name, project / new)
        (project / "TASK.md").write_text(BRIEF.format(framework=FRAMEWORKS[task.port]))
        kinds = [one.kind for one in task.mistakes]
        truths.append({"task": f"{number:02}", "net": task.net, "port": task.port, "mistakes": kinds})
    (folder / "truth" / "truth.json").write_text(json.dumps(truths, indent=1) + "\n")
    return truths


def read_truth(folder: Path) -> Sequence[dict[str, object]]:
    """Return what ``write_tasks`` wrote of each task.

    Raises:
        FileNotFoundError: The folder has no tasks.
    """
    truths: list[dict[str, object]] = json.loads((folder / "truth" / "truth.json").read_text())
    return truths
