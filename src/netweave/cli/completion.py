"""Completion of commands, options and file names in bash, zsh and fish."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

if TYPE_CHECKING:
    import click


class _FilesOtherwise(ShellComplete):
    """Completes the names of files where click has nothing to offer: nets are given as plain text."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what can stand in the place of the incomplete word."""
        return super().get_completions(args, incomplete) or [CompletionItem(incomplete, type="file")]


class _Bash(_FilesOtherwise, BashComplete):
    pass


class _Fish(_FilesOtherwise, FishComplete):
    pass


class _Zsh(_FilesOtherwise, ZshComplete):
    pass


def complete(command: click.Command, variable: str) -> int:
    """Answer the shell that set an environment variable, and return the exit status."""
    for shell in (_Bash, _Fish, _Zsh):
        add_completion_class(shell)
    return shell_complete(command, {}, "netweave", variable, os.environ[variable])
