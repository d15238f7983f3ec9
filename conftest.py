"""What is not collected where an extra is missing: its modules cannot even be imported."""

from importlib.util import find_spec

collect_ignore_glob = (
    []
    if find_spec("torch")
    else ["src/netweave/backends/torch/*", "src/netweave/optim/*", "src/netweave/train/*"]
)
