"""`mcphub completion`: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import argparse

_SHELLS = {
    "bash": 'eval "$(mcphub completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(mcphub completion zsh)"   in ~/.zshrc, after compinit',
    "fish": "mcphub completion fish | source   in ~/.config/fish/config.fish",
}


def declare(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["To have it in every shell, write:", *(f"  {line}" for line in _SHELLS.values())])
    parser.add_argument("shell", choices=list(_SHELLS), help="which shell")


def run(options: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["mcphub"], shell=options.shell))
    return 0
