"""Run models in Chainer with seeded weights: what they make, as golden files.

    python -m tests.oracles.chainer_models [CLASS ... | FILE.py CLASS SIZES FOLDER]

Without arguments, the models of ``tests/formats/chainer/nets`` into ``tests/golden/chainer``: for each the
weights as ``CLASS.npz``, as Chainer's serializer writes them, and ``CLASS-made.npz`` with the input ``x`` and
the outputs ``y0``, ... A model that judges itself gives what it hands to its losses.
"""

import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
NETS = ROOT / "tests" / "formats" / "chainer" / "nets" / "models.py"
CASES = NETS.with_name("cases.py")
VISION = NETS.with_name("vision.py")
GOLDEN = ROOT / "tests" / "golden" / "chainer"

SIZES = {
    "Lenet": (2, 1, 28, 28),
    "Residual": (2, 3, 16, 16),
    "Encoder": (2, 4, 12, 12),
    "Blocks": (2, 3, 16, 16),
    "Language": (3, 2),
    "Arithmetic": (2, 2, 6, 6),
    "Classified": (3, 2, 8, 8),
    "Numbered": (2, 3),
}
"""Models and the sizes of their inputs."""

VISION_SIZES = {"Vision": (2, 4, 9, 10)}
"""The model of ``vision.py``, which needs ChainerCV: a checkout of it on ``PYTHONPATH``."""

CASE_SIZES = {"Functions": (2, 4, 6, 6), "Links": (2, 4, 6, 6)}
"""The models of ``cases.py``: an output for each function and each link."""


def module(path):
    spec = importlib.util.spec_from_file_location("models", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def run(path, name, sizes, folder):
    import chainer
    import chainer.functions as functions

    handed = []
    judge = functions.softmax_cross_entropy

    def noted(x, t, *args, **kwargs):
        handed.append(x)
        return judge(x, t, *args, **kwargs)

    functions.softmax_cross_entropy = noted
    random = np.random.RandomState(0)
    np.random.seed(0)  # noqa: NPY002 (Chainer's initializers draw from it)
    model = getattr(module(path), name)()
    is_whole = len(sizes) == 2 and any(type(link).__name__ == "EmbedID" for link in model.links())
    x = random.randint(0, 9, sizes) if is_whole else random.uniform(-1, 1, sizes).astype("f")
    given = [x, np.zeros(sizes[0], "i")][
        : len(inspect.signature(getattr(model, "forward", model)).parameters)
    ]
    with chainer.using_config("train", False):
        model(*given)
        for link in model.links():
            reset = getattr(link, "reset_state", None)
            if reset:
                reset()
        draw(model, random)
        handed.clear()
        made = model(*given)
    functions.softmax_cross_entropy = judge
    made = handed or (made if isinstance(made, tuple) else (made,))
    chainer.serializers.save_npz(str(folder / (name + ".npz")), model)
    arrays = {f"y{number}": getattr(y, "array", y) for number, y in enumerate(made)}
    np.savez_compressed(folder / (name + "-made.npz"), x=x, **arrays)


def draw(model, random):
    for path, parameter in sorted(model.namedparams()):
        scale = 1.0 / np.sqrt(max(1, np.prod(parameter.shape[1:])))
        parameter.array[...] = random.normal(0, scale if path.endswith("W") else 0.1, parameter.shape)
        if path.endswith(("gamma", "scale/W", "norm/scale")):
            parameter.array[...] = random.uniform(0.7, 1.3, parameter.shape)
    for _, link in sorted(model.namedlinks()):
        if getattr(link, "avg_var", None) is not None:
            link.avg_mean[...] = random.normal(0, 0.1, link.avg_mean.shape)
            link.avg_var[...] = random.uniform(0.6, 1.4, link.avg_var.shape)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        path, name, sizes, folder = sys.argv[1:5]
        run(path, name, tuple(map(int, sizes.split("x"))), Path(folder))
    else:
        GOLDEN.mkdir(exist_ok=True)
        for path, models in ((NETS, SIZES), (CASES, CASE_SIZES), (VISION, VISION_SIZES)):
            for name, sizes in models.items():
                if not sys.argv[1:] or name in sys.argv[1:]:
                    run(path, name, sizes, GOLDEN)
