"""``python -m netweave.mxnet SCRIPT`` runs an unchanged script or notebook for MXNet."""

from netweave.api.import_hook import run_command_line
from netweave.mxnet.hook import run

if __name__ == "__main__":
    run_command_line("netweave.mxnet", run)
