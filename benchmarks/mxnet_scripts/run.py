"""Runs the scripts on both sides and writes ``result.json``."""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.mxnet_scripts.data import write_all

IMPORT = re.compile(r"^(\s*)(import|from)(\s+)mxnet\b(?!\s*\()", re.MULTILINE)

REMOVED = {
    r"\bnp\.fromstring\(": "np.frombuffer(",
    r"\b(np|numpy)\.(int|float|bool|object)\b(?!_)(?!\d)": r"\2",
}
"""What NumPy 2 no longer has: MXNet's own Python has an older NumPy. Such lines are counted by themselves."""

NAMED: dict[str, str] = {
    "image-classification/train_mnist.py": "--num-epochs 1 --num-examples 1000 --disp-batches 5",
    "image-classification/train_cifar10.py": "--benchmark 1 --num-epochs 1 --num-examples 64 --batch-size 16 "
    "--num-layers 8 --disp-batches 1",
    "image-classification/train_imagenet.py": "--benchmark 1 --num-epochs 1 --num-examples 16 --batch-size 4 "
    "--network resnet --num-layers 18 --disp-batches 1 --image-shape 3,64,64 --num-classes 10",
    "rnn/bucketing/lstm_bucketing.py": "--num-epochs 1 --num-hidden 16 --num-embed 16 --batch-size 8",
    "rnn/bucketing/cudnn_rnn_bucketing.py": "--num-epochs 1 --num-hidden 16 --num-embed 16 --batch-size 8",
    "rnn/lstm_bucketing.py": "--num-epochs 1 --num-hidden 16 --num-embed 16 --batch-size 8",
    "multi-task/example_multi_task.py": "",
    "multi-task/multi-task-learning.py": "",
    "numpy-ops/custom_softmax.py": "",
    "numpy-ops/weighted_logistic_regression.py": "",
    "module/mnist_mlp.py": "",
    "module/sequential_module.py": "",
    "module/python_loss.py": "",
    "python-howto/multiple_outputs.py": "",
    "python-howto/monitor_weights.py": "",
    "python-howto/debug_conv.py": "",
    "cnn_text_classification/text_cnn.py": "--num-epochs 1",
    "profiler/profiler_executor.py": "",
    "profiler/profiler_ndarray.py": "",
    "profiler/profiler_matmul.py": "--iter_num 3 --begin_profiling_iter 1 --end_profiling_iter 2",
    "svm_mnist/svm_mnist.py": "",
    "autoencoder/mnist_sae.py": "",
    "bi-lstm-sort/lstm_sort.py": "",
    "gan/dcgan.py": "",
    "recommenders/matrix_fact.py": "",
}
"""Scripts that are always tried, with arguments that make them short."""

SYMBOL = """
import importlib, sys
sys.path.insert(0, 'symbols')
import {package} as mx
name = {name!r}
settings = dict(num_classes=10, image_shape='3,{size},{size}', num_layers={layers},
                num_group=32, dtype='float32')
net = importlib.import_module(name).get_symbol(**settings)
shape = (2, 1, 28, 28) if name in ('lenet', 'mlp') else (2, 3, {size}, {size})
module = mx.mod.Module(net, context=mx.cpu())
module.bind([('data', shape)], [('softmax_label', (2,))])
module.init_params(mx.init.Xavier())
module.init_optimizer()
batch = mx.io.DataBatch([mx.nd.ones(shape)], [mx.nd.zeros((2,))])
module.forward_backward(batch)
module.update()
print(module.get_outputs()[0].shape, sum(v.size for v in module.get_params()[0].values()))
"""
"""Builds, binds, runs and updates one of the networks of ``image-classification/symbols``."""


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path, help="folders of examples, one for each release")
    parser.add_argument("--mxnet", required=True, help="a Python that has MXNet 1.9.1")
    parser.add_argument("--random", type=int, default=0, help="how many further scripts, chosen at random")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--limit", type=int, default=25, help="seconds; a script that still runs then counts")
    parser.add_argument("--only", default="", help="a regular expression for names")
    parser.add_argument("--symbols", action="store_true", help="try the networks of the symbol files")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("result.json"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runner = Runner(Path(scratch), args.mxnet, args.limit)
        rows: list[dict[str, object]] = []
        for folder in args.folders:
            runner.add(folder)
        for release, script, arguments, source in _cases(runner, args):
            if args.only and not re.search(args.only, script):
                continue
            row = runner.row(release, script, arguments, source)
            rows.append(row)
            print(json.dumps(row), flush=True)
            args.out.write_text(json.dumps(_summary(rows, args), indent=1) + "\n", encoding="utf-8")


def _cases(runner: Runner, args: argparse.Namespace) -> list[tuple[str, str, str, str | None]]:
    found: list[tuple[str, str, str, str | None]] = []
    for release, folder in runner.folders.items():
        found += [(release, name, NAMED[name], None) for name in NAMED if (folder / name).exists()]
        if args.symbols:
            for path in sorted((folder / "image-classification" / "symbols").glob("*.py")):
                if "get_symbol" in path.read_text(encoding="utf-8", errors="replace"):
                    found.append(
                        (release, f"image-classification/symbols/{path.name}", "", _symbol(path.stem))
                    )
    taken = {(release, script) for release, script, _, _ in found}
    pool = [one for one in runner.scripts() if one not in taken]
    chosen = random.Random(args.seed).sample(pool, min(args.random, len(pool)))
    return found + [(release, script, "", None) for release, script in chosen]


def _symbol(name: str) -> str:
    size = {
        "inception-v3": 299,
        "inception-v4": 299,
        "inception-resnet-v2": 299,
        "googlenet": 224,
        "alexnet": 224,
    }
    layers = {"vgg": 11, "resnext": 50}.get(name, 18)
    return SYMBOL.format(package="{package}", name=name, size=size.get(name, 224), layers=layers)


class Runner:
    """Copies of the examples for both sides, and running them.

    Args:
        scratch: An empty folder.
        mxnet: A Python that has MXNet.
        limit: Seconds for a script.
    """

    def __init__(self, scratch: Path, mxnet: str, limit: int) -> None:
        self._scratch, self._mxnet, self._limit = scratch, mxnet, limit
        self.folders: dict[str, Path] = {}
        write_all(scratch / "data")

    def add(self, folder: Path) -> None:
        """Add the examples of a release; its name is that of the folder."""
        self.folders[folder.parent.name if folder.name == "example" else folder.name] = folder

    def scripts(self) -> list[tuple[str, str]]:
        """Return all scripts that Python 3 parses, import MXNet and do something when they are run."""
        found = []
        for release, folder in self.folders.items():
            for path in sorted(folder.rglob("*.py")):
                text = path.read_text(encoding="utf-8", errors="replace")
                runs = "__main__" in text or re.search(r"^\w.*\.fit\(|^\w.*\.forward\(", text, re.MULTILINE)
                if "mxnet" in text and runs and _parses(text):
                    found.append((release, str(path.relative_to(folder))))
        return found

    def row(self, release: str, script: str, arguments: str, source: str | None) -> dict[str, object]:
        """Return how a script ends on both sides, and how many of its lines were changed."""
        theirs = self._run("mxnet", release, script, arguments, source)
        row: dict[str, object] = {"release": release, "script": script, "mxnet": theirs}
        if theirs in {"ends", "runs"}:
            folder = self._copy("netweave", release)
            text = self.folders[release].joinpath(script).read_text(encoding="utf-8", errors="replace")
            row["lines"], row["numpy lines"] = len(IMPORT.findall(text)), numpy_lines(text)
            row["netweave"] = self._run("netweave", release, script, arguments, source, folder)
        return row

    def _copy(self, side: str, release: str) -> Path:
        target = self._scratch / side / release
        if not target.exists():
            shutil.copytree(self.folders[release], target, symlinks=True)
            for path in target.rglob("*.py"):
                text = path.read_text(encoding="utf-8", errors="replace")
                # this machine may have no GPU: both sides compute on the CPU
                text = re.sub(r"\b(mx|context)\.gpu\(", r"\1.cpu(", text)
                path.write_text(changed(text) if side == "netweave" else text, encoding="utf-8")
        return target

    def _run(
        self,
        side: str,
        release: str,
        script: str,
        arguments: str,
        source: str | None,
        root: Path | None = None,
    ) -> str:
        path = (root or self._copy(side, release)) / script
        folder = path.parent if source is None else path.parents[1]
        for place in (folder / "data", folder.parent / "data"):
            shutil.copytree(self._scratch / "data", place, dirs_exist_ok=True)
        command = [self._mxnet if side == "mxnet" else sys.executable]
        if source is None:
            command += [path.name, *arguments.split()]
        else:
            command += ["-c", source.format(package="mxnet" if side == "mxnet" else "netweave.mxnet")]
        environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                timeout=self._limit,
                capture_output=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            return "runs"
        if done.returncode == 0:
            return "ends"
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
        wrong = [line for line in lines if re.match(r"[\w.]*(Error|Exception|Exit|Interrupt)\b", line)]
        return (wrong or lines)[-1][:300]


def numpy_lines(text: str) -> int:
    """Return how many lines use what NumPy 2 no longer has."""
    return sum(any(re.search(old, line) for old in REMOVED) for line in text.splitlines())


def changed(text: str) -> str:
    """Return a script with ``mxnet`` replaced in its import lines, and what NumPy 2 no longer has."""
    for old, new in REMOVED.items():
        text = re.sub(old, new, text)
    text = re.sub(r"^(\s*)import\s+mxnet\s*$", r"\1import netweave.mxnet as mxnet", text, flags=re.MULTILINE)
    # a plain import of a submodule binds the package's name, too
    both = r"\1import netweave.\2; import netweave.mxnet as mxnet"
    text = re.sub(r"^(\s*)import\s+(mxnet\.[\w.]+)\s*$", both, text, flags=re.MULTILINE)
    return IMPORT.sub(r"\1\2\3netweave.mxnet", text)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _summary(rows: list[dict[str, object]], args: argparse.Namespace) -> dict[str, object]:
    counted = [row for row in rows if "netweave" in row]
    good = [row for row in counted if row["netweave"] in {"ends", "runs"}]
    lines = Counter(str(row["lines"]) for row in good)
    return {
        "limit_s": args.limit,
        "random": args.random,
        "seed": args.seed,
        "tried": len(rows),
        "mxnet runs": len(counted),
        "netweave runs": len(good),
        "by lines changed": dict(sorted(lines.items())),
        "rows": rows,
    }


if __name__ == "__main__":
    main()
