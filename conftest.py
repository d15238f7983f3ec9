"""What is not collected where an extra is missing: its modules cannot even be imported."""

from importlib.util import find_spec

MODULES = {
    "chainer": ["tests/formats/chainer/nets/*"],
    "django": ["tests/web/*"],
    "openvino": ["src/netweave/backends/openvino.py"],
    "torch": [
        "src/netweave/backends/torch/*",
        "src/netweave/formats/pytorch/module.py",
        "src/netweave/optim/*",
        "src/netweave/train/*",
        "tests/formats/pytorch/nets/*",
    ],
}

collect_ignore_glob = [path for extra, paths in MODULES.items() if not find_spec(extra) for path in paths]
collect_ignore_glob.append("src/netweave/formats/*/child.py")  # programs of their own, which nothing imports
collect_ignore_glob.append("src/netweave/web/*")  # Django's modules cannot be imported before it is set up

if find_spec("django"):
    import tests.web.begin  # noqa: F401 (sets Django up)
