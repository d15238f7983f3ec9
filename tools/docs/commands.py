"""The reference of the command line, from click's own help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave import cli

if TYPE_CHECKING:
    import click


COMPLETION = f"""\
## Completion

Shells complete commands, options and the names of files. Add a line to the file that your shell reads first:

| shell | file | line |
|---|---|---|
| bash | `~/.bashrc` | `eval "$({cli.COMPLETE}=bash_source netweave)"` |
| zsh | `~/.zshrc` | `eval "$({cli.COMPLETE}=zsh_source netweave)"` |
| fish | `~/.config/fish/completions/netweave.fish` | `{cli.COMPLETE}=fish_source netweave \\| source` |

`netweave` must be on the path: in an environment, activate it first."""


def page() -> str:
    """Return the page."""
    parts = [
        "# The command line",
        "Generated from `netweave --help` and that of each command.",
        _help(cli.netweave, "netweave"),
        COMPLETION,
    ]
    for command in cli.COMMANDS:
        parts += [f"## netweave {command.name}", _help(command, f"netweave {command.name}")]
    return "\n\n".join(parts) + "\n"


def _help(command: click.Command, name: str) -> str:
    context = command.make_context(
        name, [], resilient_parsing=True, terminal_width=88, help_option_names=["-h", "--help"]
    )
    return f"```console\n$ {name} --help\n{command.get_help(context).rstrip()}\n```"
