"""Write ports for coding agents to mend, and check what they hand in.

``write FOLDER`` writes the tasks of ``--seed``: ``FOLDER/tasks/NN`` for the agents, and
``FOLDER/truth``, which they must not see. ``check FOLDER`` runs original and port on hidden inputs and
counts what was repaired, what was called done though it is wrong, and what was right and is broken.
``verify FOLDER`` holds the material itself against the check: right ports must pass, and those handed out
wrong must fail.

The check runs the agents' code without a guard: give it a machine, or a user, that may run it.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.agents.hidden_inputs import INPUTS, SMALL
from benchmarks.agents.tasks import read_truth, write_tasks
from benchmarks.record import Namespace, Record, option

OPTIONS = (
    option("action", choices=["write", "check", "verify"]),
    option("folder", type=Path, help="folder of the material"),
    option("--seed", default=1, help="seed of the tasks, or of the hidden inputs"),
    option("--worked", type=Path, help="folder with the folders 01, 02, ... of a trial (FOLDER/tasks)"),
    option("--python", default=sys.executable, help="interpreter with PyTorch, JAX and Keras"),
    option("--only", nargs="*", default=[], help="numbers of tasks, such as 07"),
)

TOLERANCE = 5e-5
"""Largest difference of a right output, relative to the output's largest value.

Right ports stay below 1.2e-5; the weakest planted mistakes, another form of GELU or eps, reach 1.3e-4.
"""

LIMIT_S = 300.0
"""Time for one side's hidden inputs."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A port's outputs beside the original's.

    Attributes:
        error: Largest difference on any case, relative to that output's largest value; infinite where the
            port fails.
        case: Number of that case with the shapes of its inputs, and the error's text if there is one.
        small: The error on the input that a hasty check would draw.
    """

    error: float
    case: str
    small: float

    @property
    def is_right(self) -> bool:
        """True if all outputs agree."""
        return self.error <= TOLERANCE


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one task.

    Attributes:
        task: Its number.
        net: Folder of the net.
        port: Framework of the port.
        mistakes: What was planted.
        answer: The agent's last word: ``right``, ``repaired``, ``unsure`` or ``none``.
        is_right: True if the port now computes what the original does.
        error: As in ``Measured``.
        case: As in ``Measured``.
    """

    task: str
    net: str
    port: str
    mistakes: list[str]
    answer: str
    is_right: bool
    error: float
    case: str

    @property
    def is_false_done(self) -> bool:
        """True if the agent was sure, and the port is wrong."""
        return self.answer in {"right", "repaired"} and not self.is_right


def outputs(
    python: str, folder: Path, module: str, weights: Path, inputs: Path
) -> dict[str, np.ndarray] | str:
    """Return the outputs of ``folder/module.py`` by case, or the text of what went wrong before any."""
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "outputs.npz"
        script = Path(__file__).with_name("measure.py")
        command = [python, str(script), str(folder), module, str(weights), str(inputs), str(target)]
        environment = {**os.environ, "KERAS_BACKEND": "torch", "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                env=environment,
                check=False,
                cwd=place,
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {LIMIT_S:.0f} s"
        if done.returncode or not target.exists():
            return (done.stderr.strip().splitlines() or ["ended without a word"])[-1]
        with np.load(target) as stored:
            return {name: stored[name] for name in stored.files}


def difference(expected: np.ndarray, actual: np.ndarray) -> float:
    """Return the largest difference relative to the expected output's largest value."""
    if expected.shape != actual.shape or not np.isfinite(actual).all():
        return float("inf")
    return float(np.abs(expected - actual).max() / (np.abs(expected).max() or 1.0))


def measure(net: str, truth: Path, port: Path, python: str, seed: int) -> Measured:
    """Return how far a port is from its original on the hidden inputs of a net.

    Raises:
        RuntimeError: The original itself does not run, so that the interpreter lacks something.
    """
    rng = np.random.default_rng(seed)
    cases = [SMALL[net](rng), *INPUTS[net](rng)]
    weights = truth / "weights.safetensors"
    with tempfile.TemporaryDirectory() as place:
        inputs = Path(place) / "inputs.npz"
        np.savez(inputs, **{f"{i}_{j}": x for i, case in enumerate(cases) for j, x in enumerate(case)})
        expected = outputs(python, truth, "original", weights, inputs)
        actual = outputs(python, port.parent, port.stem, weights, inputs)
    if isinstance(expected, str) or any(name.startswith("error") for name in expected):
        raise RuntimeError(f"{truth / 'original.py'} does not run with {python}: {expected}")
    if isinstance(actual, str):
        return Measured(float("inf"), actual, float("inf"))
    errors = [
        difference(expected[f"output_{i}"], actual[f"output_{i}"])
        if f"output_{i}" in actual
        else float("inf")
        for i in range(len(cases))
    ]
    worst = int(np.argmax(errors))
    shapes = ", ".join("x".join(map(str, x.shape)) for x in cases[worst])
    text = f": {actual[f'error_{worst}']}" if f"error_{worst}" in actual else ""
    return Measured(errors[worst], f"case {worst} ({shapes}){text}", errors[0])


def answer_of(folder: Path) -> str:
    """Return the agent's word in ``ANSWER.txt``, or ``none``."""
    path = folder / "ANSWER.txt"
    words = path.read_text().replace("done:", " ").split() if path.exists() else []
    return next((word for word in words if word in {"right", "repaired", "unsure"}), "none")


def borrows(source: str) -> bool:
    """True if a port imports the original or is no Python at all: it is no port then."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return True
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "original" in names or any(text in {"original", "original.py"} for text in texts)


def check(options: Namespace, truths: Iterable[dict[str, object]]) -> list[Row]:
    """Check each task of a trial, and print a line for it."""
    worked = options.worked or options.folder / "tasks"
    rows = []
    for one in truths:
        number, net, port = (str(one[key]) for key in ("task", "net", "port"))
        mistakes = [str(kind) for kind in one["mistakes"]]  # type: ignore[attr-defined]  # read from JSON
        path = worked / number / "port.py"
        if not path.exists():
            found = Measured(float("inf"), "port.py is not there", float("inf"))
        elif borrows(path.read_text()):
            found = Measured(float("inf"), "port.py takes the original instead of being a port", float("inf"))
        else:
            found = measure(net, options.folder / "truth" / number, path, options.python, options.seed)
        row = Row(
            number, net, port, mistakes, answer_of(path.parent), found.is_right, found.error, found.case
        )
        rows.append(row)
        state = "right" if row.is_right else "wrong"
        was = f"was wrong ({', '.join(mistakes)})" if mistakes else "was right"
        print(f"{number} {net}/{port}: {was}, is {state}, answer {row.answer}; {row.error:.1e} at {row.case}")
    return rows


def summary(rows: list[Row]) -> dict[str, int]:
    """Return the counts of a trial."""
    broken = [row for row in rows if row.mistakes]
    return {
        "tasks": len(rows),
        "broken": len(broken),
        "repaired": sum(row.is_right for row in broken),
        "right": len(rows) - len(broken),
        "right_kept": sum(row.is_right for row in rows if not row.mistakes),
        "broken_what_was_right": sum(not row.is_right for row in rows if not row.mistakes),
        "false_done": sum(row.is_false_done for row in rows),
        "sure": sum(row.answer in {"right", "repaired"} for row in rows),
        "unsure": sum(row.answer == "unsure" for row in rows),
        "no_answer": sum(row.answer == "none" for row in rows),
    }


def verify(options: Namespace, truths: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Hold the material against the check: the right form of each port, and the form that was handed out."""
    rows: list[dict[str, object]] = []
    for one in truths:
        number, net = str(one["task"]), str(one["net"])
        truth = options.folder / "truth" / number
        right = measure(net, truth, truth / "port.py", options.python, options.seed)
        row = {**one, "right": right.error, "is_fit": right.is_right}
        if one["mistakes"]:
            given = measure(net, truth, truth / "given.py", options.python, options.seed)
            row |= {"given": given.error, "small": given.small, "case": given.case}
            row["is_fit"] = right.is_right and not given.is_right
        rows.append(row)
        print("" if row["is_fit"] else "UNFIT", row)
    return rows


def main(options: Namespace, record: Record) -> None:
    """Write, check or verify.

    Raises:
        SystemExit: The material is unfit.
    """
    if options.action == "write":
        truths = write_tasks(options.folder, options.seed)
        print(f"{len(truths)} tasks, of which {sum(bool(one['mistakes']) for one in truths)} are broken")
        return
    truths = [one for one in read_truth(options.folder) if not options.only or one["task"] in options.only]
    if options.action == "check":
        rows = check(options, truths)
        counts = summary(rows)
        print(counts)
        record.save({"summary": counts, "rows": [asdict(row) for row in rows]})
        return
    found = verify(options, truths)
    hidden = sum(float(str(row["small"])) <= TOLERANCE for row in found if "small" in row)
    unfit = [row["task"] for row in found if not row["is_fit"]]
    print(f"{len(found)} tasks, {len(unfit)} unfit; {hidden} mistakes do not show on a small drawn input")
    record.save({"rows": found})
    if unfit:
        raise SystemExit(f"unfit: {', '.join(map(str, unfit))}")
