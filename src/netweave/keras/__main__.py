"""``python -m netweave.keras SCRIPT`` runs an unchanged script or notebook for Keras."""

from netweave.api.import_hook import run_command_line
from netweave.keras.hook import run

if __name__ == "__main__":
    run_command_line("netweave.keras", run)
