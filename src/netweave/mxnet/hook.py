"""The import hook that answers ``import mxnet`` in unchanged scripts and notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from netweave.api.import_hook import ImportHook, run_script

HOOK = ImportHook("mxnet", "netweave.mxnet")


def install() -> None:
    """Let ``import mxnet`` and ``from mxnet import ...`` find ``netweave.mxnet`` from now on.

    Raises:
        UsageError: MXNet itself is imported already.
    """
    HOOK.install()


def run(arguments: Sequence[str]) -> None:
    """Run a script, a notebook, or with ``-m`` a module, as ``python`` would, and answer MXNet's name.

    Raises:
        ReadError: The notebook cannot be read, or is none.
    """
    install()
    run_script(arguments)
