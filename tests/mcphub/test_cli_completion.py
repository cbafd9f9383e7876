"""`mcphub completion` in real shells: what stands in the line is completed, and a Tab leaves nothing behind."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests import factories as make
from tests import template
from tests.in_process import inside, run
from tests.mcphub.running import ROOT, environment
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program

BASH = """
set -u
source /dev/stdin <<< "$(mcphub completion bash)"
complete -p mcphub >&2 || exit 9
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9 COMP_KEY=9
COMP_WORDS=($1) COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
case $1 in *' ') COMP_WORDS+=('') COMP_CWORD=$(( COMP_CWORD + 1 )) ;; esac
COMPREPLY=()
_python_argcomplete mcphub "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'mcphub completion fish | source; complete -C "$argv[1]"'
ZSH = """
autoload -Uz compinit && compinit -D
source <(mcphub completion zsh)
print -r -- "${_comps[mcphub]}"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completed")
    template.copy_to(path / "hub.sqlite3")
    with inside(path):
        make.McpToolDefinitionFactory(name="weather")
        make.McpToolDefinitionFactory(name="weather.tomorrow")
        make.McpConnectionFactory(slug="tracker")
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the command, as an installed hub has it."""
    folder = tmp_path_factory.mktemp("program")
    command = folder / "mcphub"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mcphub.cli "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.fixture
def shell(program: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    def shell(data_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
        env = environment(data_dir)
        env |= {"PATH": f"{program}:{env['PATH']}", "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(
            words, env=env, cwd=data_dir.parent, capture_output=True, text=True, timeout=PATIENCE_SECONDS
        )
        assert ended.returncode == 0, ended.stderr
        return ended

    return shell


def offered(text: str) -> set[str]:
    return {line.rstrip().split("\t")[0] for line in text.splitlines() if line.strip()}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("mcphub too", {"tool"}),
        ("mcphub tool ", {"list", "show", "enable", "disable"}),
        ("mcphub tool dis", {"disable"}),
        ("mcphub tool disable wea", {"weather", "weather.tomorrow"}),
        ("mcphub tool disable weather --rea", {"--reason"}),
        ("mcphub connection show t", {"tracker"}),
        ("mcphub completion f", {"fish"}),
        ("mcphub tool show nothing", set()),
    ],
)
def test_bash_completes_what_is_written(
    line: str, wanted: Iterable[str], home: Path, shell: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ended = shell(home, "bash", "--norc", "-c", BASH, "bash", line)
    assert "complete" in ended.stderr
    assert offered(ended.stdout) == wanted


def test_a_tab_makes_no_hub(tmp_path: Path, shell: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    new = tmp_path / "new"
    assert offered(shell(new, "bash", "--norc", "-c", BASH, "bash", "mcphub tool show wea").stdout) == set()
    assert list(tmp_path.iterdir()) == []


def test_another_shell_is_refused(home: Path) -> None:
    ended = run(home, "completion", "tcsh")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (2, 1)


def test_scripts_name_the_command(home: Path) -> None:
    for name in ("bash", "zsh", "fish"):
        ended = run(home, "completion", name)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "mcphub" in ended.stdout


if shutil.which("fish"):

    def test_fish_completes_what_is_written(home: Path, shell: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        ended = shell(home, "fish", "--no-config", "-c", FISH, "mcphub tool disable wea")
        assert offered(ended.stdout) == {"weather", "weather.tomorrow"}


if shutil.which("zsh"):

    def test_zsh_takes_the_script(home: Path, shell: Callable[..., subprocess.CompletedProcess[str]]) -> None:
        assert shell(home, "zsh", "-f", "-c", ZSH).stdout.strip() != ""
