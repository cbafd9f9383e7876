"""Build a release, describe how, and sign it: `make release KEY=path`.

    python -m deploy.release.release --key ~/mcphub-release.key [--output dist/release] [--source URL]
    python -m deploy.release.release --prove

It takes the files of the last commit, not of the folder, and its time for all that has one, so the same commit, tools
and key give the same bytes; the image does while Debian has the same packages. Into the output go wheel, sdist, chart,
bill of materials, the image where buildah is, the provenance as a signed statement, and a signature of minisign beside
each. `--prove` does all but the image twice, in clones at different paths with a key made for the run, compares, and
verifies; `make try-image` does the image twice. See docs/operate/upgrading.md, *Verify a release*.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zlib
from pathlib import Path

from deploy.release import hashes, keys, packing, sbom
from deploy.release.keys import Unusable
from mcphub.features.provenance import checking, statements

LIST = "mcphub.txt"


def build(commit: str, epoch: int, to: Path, *, with_image: bool) -> list[Path]:
    """Write the files of a release, without signatures, into an empty folder."""
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch)  # of the bill of materials, too
    with tempfile.TemporaryDirectory(prefix="mcphub-source-") as name:
        source = packing.checkout(commit, Path(name) / "mcphub")
        wheel, sdist = packing.python_files(source, to, epoch)
        chart = packing.chart(source / "deploy" / "chart", to, epoch)
    bill = to / f"mcphub-{version()}.cdx.json"
    bill.write_text(_bill())
    files = [wheel, sdist, chart, bill]
    return [*files, *_image(wheel, to, epoch)] if with_image else files


def statement(files: list[Path], commit: str, epoch: int, source: str, builder: str) -> dict[str, object]:
    """Return the provenance of built files."""
    dependencies: list[dict[str, object]] = [
        ({"uri": f"git+{source}@{commit}"} if source else {"name": "source"}) | {"digest": {"gitCommit": commit}}
    ]
    pinned = [hashes.HOME / "constraints.txt", hashes.FOLDER / LIST, packing.TOOLS]
    dependencies += [
        {"name": path.relative_to(hashes.HOME).as_posix(), "digest": {"sha256": _sha256(path)}} for path in pinned
    ]
    tools = {"python": platform.python_version(), "zlib": zlib.ZLIB_RUNTIME_VERSION, "sourceDateEpoch": epoch}
    return {
        "_type": statements.STATEMENT,
        "subject": [{"name": path.name, "digest": {"sha256": _sha256(path)}} for path in sorted(files)],
        "predicateType": statements.PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": statements.BUILD_TYPE,
                "externalParameters": {"version": version(), "commit": commit} | ({"source": source} if source else {}),
                "internalParameters": tools,
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": builder}},
        },
    }


def sign(files: list[Path], described: dict[str, object], signer: keys.Signer, epoch: int, to: Path) -> None:
    """Write the provenance, and a signature beside each file."""
    envelope = to / f"mcphub-{version()}{statements.SUFFIX}"
    envelope.write_text(statements.sealed(described, signer.public, signer.sign))
    for path in [*files, envelope]:
        path.with_name(path.name + checking.SIGNATURE).write_text(signer.file(path, epoch).text())


def version() -> str:
    found: str = tomllib.loads((hashes.HOME / "pyproject.toml").read_text())["project"]["version"]
    return found


def _bill() -> str:
    text = sbom.bill(LIST)
    if fault := sbom.wrong(text):
        sys.exit(f"CycloneDX's schema refuses the bill: {fault}")
    return text


def _image(wheel: Path, to: Path, epoch: int) -> list[Path]:
    """Return the image where one can be built; say so where it is left out."""
    missing = [program for program in ("mmdebstrap", "buildah", "podman") if not shutil.which(program)]
    if missing:
        print(f"The image is left out: {', '.join(missing)} are not installed here.")
        return []
    from deploy.release import image

    packed = to / f"mcphub-image-{version()}.tar"
    with tempfile.TemporaryDirectory(prefix="mcphub-image-") as name:
        image.pack(wheel, packed, epoch, Path(name))
    return [packed]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=hashes.HOME, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unusable(
            f"A release is made of a commit: {hashes.HOME} must be a clone, and git there. {error}"
        ) from error
    return done.stdout.strip()


def release(options: argparse.Namespace) -> int:
    if not options.key:
        raise Unusable(f"make release needs the releaser's key: KEY=PATH. Make one with `{keys.MAKE_ONE}`.")
    key = Path(options.key).expanduser()
    keys.outside_checkout(key)
    signer = keys.read(key, options.passphrase_file)
    if changed := _git("status", "--porcelain", "--untracked-files=no"):
        raise Unusable(f"The provenance names a commit, and these files differ from it; commit them:\n{changed}")
    source = re.sub(r"^git\+", "", options.source)
    if source and not re.fullmatch(r"(https|ssh)://[^\s@]+", source):
        raise Unusable("SOURCE is the public address of the repository, https://… without credentials.")
    to: Path = options.output
    if to.exists() and any(to.iterdir()):
        raise Unusable(f"{to} is not empty: remove what is in it, or name another folder with OUTPUT=…")
    to.mkdir(parents=True, exist_ok=True)
    commit, epoch = _git("rev-parse", "HEAD"), int(_git("log", "-1", "--format=%ct"))
    files = build(commit, epoch, to, with_image=not options.no_image)
    builder = options.builder or f"urn:mcphub:releaser:{signer.public.name}"
    sign(files, statement(files, commit, epoch, source, builder), signer, epoch, to)
    print(f"{to}: mcphub {version()} of commit {commit}, {len(files)} files, signed with {signer.public.name}")
    return 0


def prove() -> int:
    """Release the last commit twice, from clones at different paths, umasks and times of files; compare; verify."""
    with tempfile.TemporaryDirectory(prefix="mcphub-prove-") as name:
        scratch = Path(name)
        key = scratch / "key"
        _run([sys.executable, "-m", "deploy.release.keys", "--no-passphrase", str(key)])
        made = []
        for folder, umask in (("one", 0o022), ("another/and/deeper", 0o077)):
            clone, output = scratch / folder, scratch / f"release-{umask}"
            _run(["git", "clone", "-q", "--no-hardlinks", str(hashes.HOME), str(clone)], umask=umask)
            words = ["--key", str(key), "--output", str(output), "--no-image"]
            print(_run([sys.executable, "-m", "deploy.release.release", *words], cwd=clone, umask=umask), end="")
            made.append({path.name: _sha256(path) for path in output.iterdir()})
        if made[0] != made[1]:
            names = sorted(each for each in made[0].keys() | made[1].keys() if made[0].get(each) != made[1].get(each))
            sys.exit(f"Built twice, these differ: {', '.join(names)}")
        verify = [sys.executable, "-m", "mcphub.cli", "verify-release", str(output), "--key", f"{key}.pub"]
        print(_run(verify), end="")
        _by_minisign(output, Path(f"{key}.pub"))
        (output / "unknown").write_text("x")
        if subprocess.run(verify, capture_output=True).returncode == 0:
            sys.exit("verify-release accepts a file that is not part of the release.")
        print(f"{len(made[0])} files are the same bytes, built twice")
    return 0


def _by_minisign(folder: Path, public: Path) -> None:
    if not shutil.which("minisign"):
        print("minisign is not installed here: its own check is left out")
        return
    for path in sorted(folder.glob(f"*{checking.SIGNATURE}")):
        _run(["minisign", "-V", "-q", "-p", str(public), "-m", str(path).removesuffix(checking.SIGNATURE)])
    print("minisign accepts every signature")


def _run(command: list[str], cwd: Path | None = None, umask: int = -1) -> str:
    done = subprocess.run(command, cwd=cwd, umask=umask, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", default="", help="file of the secret key, of minisign or deploy.release.keys")
    parser.add_argument("--passphrase-file", type=Path, help="its first line is the key's passphrase")
    parser.add_argument("--output", type=Path, default=hashes.HOME / "dist" / "release", help="an empty folder")
    parser.add_argument("--source", default="", help="the public address of the repository, for the provenance")
    parser.add_argument("--builder", default="", help="a URI that names who builds; else made of the key's id")
    parser.add_argument("--no-image", action="store_true", help="leave the image out")
    parser.add_argument("--prove", action="store_true", help="build twice with a key made for the run, and compare")
    options = parser.parse_args()
    try:
        return prove() if options.prove else release(options)
    except (Unusable, LookupError) as problem:
        print(problem, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
