"""`streamk completion`: the script by which a shell completes commands, options and files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from connectors.errors import Unavailable
from streamk.cli.arguments import Parser, UsageError, nearest, parser_of
from streamk.cli.dispatch import COMMANDS, command_of

EPILOG = """\
examples:
  source <(streamk completion bash)
  streamk completion bash > ~/.local/share/bash-completion/completions/streamk
  streamk completion fish > ~/.config/fish/completions/streamk.fish
"""

_PLACES = ("FILE", "DIR", "SOURCE", "SINK", "CHECKPOINT")
"""Metavars of arguments that files complete."""


def main(arguments: Sequence[str]) -> int:
    """Print the script of a shell."""
    parser = Parser("streamk completion", "Print the completion for a shell.", EPILOG)
    parser.add_argument("shell", metavar="SHELL", help="bash, zsh, fish or another of shtab's")
    parser.add_common()
    shell = parser.parse(arguments)["shell"]
    try:
        import shtab
    except ImportError as error:
        raise Unavailable("it needs shtab: pip install 'streamk[completion]'") from error
    shells = shtab.SUPPORTED_SHELLS
    if shell not in shells:
        raise UsageError(f"no shell {shell!r}{nearest(shell, shells)} ({', '.join(shells)})")
    root = argparse.ArgumentParser("streamk")
    root.add_argument("--version", action="store_true", help="show the version")
    commands: Any = root.add_subparsers(parser_class=argparse.ArgumentParser)
    for name, about in COMMANDS.items():
        built = parser_of(command_of(name))
        for action in built._actions:
            if action.metavar in _PLACES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
        commands.add_parser(name, help=about, parents=[built], add_help=False)
    script = shtab.complete(root, shell)
    # Where nothing else fits bash completes files: of csv:PATH it takes PATH for a word.
    print(script.replace("complete -o bashdefault", "complete -o default -o bashdefault"))
    return 0
