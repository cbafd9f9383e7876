"""Build the image from Debian's packages and the wheel, without a registry of images, and try it.

    python -m deploy.release.image can                  says why nothing can be built or started here, with status 3
    python -m deploy.release.image build [--tools]      localhost/mcphub:VERSION (and VERSION-tools)
    python -m deploy.release.image prove                packs it twice and compares the bytes
    python -m deploy.release.image try                  podman run, hardened, to a first audited call
    python -m deploy.release.image try-compose          deploy/compose.yaml with PostgreSQL, to the same
    python -m deploy.release.image try-unit             deploy/mcphub.service under systemd in a container, to the same

Needs mmdebstrap, buildah and podman, for compose aardvark-dns, and runc where podman's own runtime starts nothing. The
build trusts the certificates that this machine trusts (`-v /etc/ssl/certs`), and leaves none in the image.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from deploy.release import first_call, hashes, packing, try_wheel

SUITE = "trixie"
BASE = f"localhost/mcphub-base:{SUITE}"
UNIT_SUITE = "bookworm"
"""Its systemd boots on every kind of control groups."""
UNIT_BASE = f"localhost/mcphub-machine:{UNIT_SUITE}"
POSTGRESQL = "localhost/mcphub-postgresql:latest"
IMAGES = hashes.HOME / "deploy" / "image"
PACKAGES = ("ca-certificates", "python3", "python3-venv", "tzdata")
PLAIN_RUNTIME = (
    '[containers]\ndefault_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]\n[engine]\nruntime = "runc"\n'
)
"""For a machine where podman's own choice cannot start a container: cgroups of two versions, bounds that stay."""


def why_not(scratch: Path) -> str:
    """Say what keeps this machine from building and starting images; empty where nothing does.

    Only the machine is judged: Debian's packages, PyPI from within a build, a container that starts.
    """
    try:
        _base(scratch)
        context = scratch / "trial"
        context.mkdir()
        (context / "Containerfile").write_text(
            f"FROM {BASE}\nRUN python3 -m venv /trial && /trial/bin/pip download -q --no-deps -d /trial pip\n"
        )
        _bud(context, "--no-cache", "-t", f"{BASE}-trial")
        _choose_runtime(scratch)
        _podman("run", "--rm", BASE, "true")
    except SystemExit as fault:
        return str(fault.code)
    return ""


def build(scratch: Path, *, with_tools: bool) -> None:
    wheel = try_wheel.build(scratch)
    context = _context(wheel, scratch)
    _base(scratch)
    for target, suffix in (("hub", ""), *([("tools", "-tools")] if with_tools else [])):
        name = f"localhost/mcphub:{wheel.name.split('-')[1]}{suffix}"
        _bud(context, "--target", target, "-t", name, "-t", f"localhost/mcphub:latest{suffix}")
        print(f"{name}: {_size(name)}")


def pack(wheel: Path, to: Path, epoch: int, scratch: Path) -> None:
    """Write the image of a wheel into an archive of OCI, with one time in all that has a time.

    Two machines write the same bytes while Debian has the same packages; after an update of one it is another image.
    """
    name, base = f"localhost/mcphub:{wheel.name.split('-')[1]}", f"{BASE}-{epoch}"
    timed = [
        "--no-cache",
        "--omit-history",
        "--timestamp",
        str(epoch),
    ]  # a history has digests of files with their times
    root = scratch / "root"
    root.mkdir()
    _bootstrap(root / "base.tar", SUITE, PACKAGES, epoch)
    (root / "Containerfile").write_text("FROM scratch\nADD base.tar /\n")
    _bud(root, *timed, "-t", base, with_certificates=False)
    given = ["--build-arg", f"BASE={base}", "--build-arg", f"SOURCE_DATE_EPOCH={epoch}"]
    _bud(_context(wheel, scratch), "--target", "hub", *timed, *given, "-t", name)
    _run(["buildah", "push", "-q", name, f"oci:{scratch / 'oci'}:{name}"])
    packing.tar_folder(scratch / "oci", to, epoch)


def prove(scratch: Path) -> None:
    """Pack the image twice, in folders of their own and without a cache; end where the bytes differ."""
    wheel, epoch, packed = try_wheel.build(scratch), int(time.time()), []
    for folder in (scratch / "one", scratch / "two"):
        folder.mkdir()
        pack(wheel, folder / "image.tar", epoch, folder)
        with (folder / "image.tar").open("rb") as file:
            packed.append(hashlib.file_digest(file, "sha256").hexdigest())
    if len(set(packed)) > 1:
        sys.exit("Two builds of the image differ. Compare their layers with tar and diff.")
    print(f"the image, packed twice: {packed[0]}")


def _context(wheel: Path, scratch: Path) -> Path:
    """Make a folder with all that the Containerfile copies."""
    context = scratch / "context"
    shutil.copytree(hashes.FOLDER, context / "hashes")
    for file in (hashes.HOME / "constraints.txt", wheel, *IMAGES.iterdir()):
        shutil.copy(file, context)
    return context


def run(scratch: Path) -> None:
    """Start the image as its own user, with a read-only root, no rights and no new ones; call; ask its health check."""
    name, port = f"mcphub-try-{os.getpid()}", _free_port()
    hardened = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges", "--tmpfs=/tmp"]
    published = ["-p", f"127.0.0.1:{port}:8000", "-v", f"{name}:/data", "-e", "MCPHUB_ALLOWED_HOSTS=hub.example"]
    try:
        _podman("run", "-d", "--name", name, *hardened, *published, "localhost/mcphub:latest")
        print("podman run:", first_call.make(f"http://127.0.0.1:{port}", _key(name)))
        _podman("healthcheck", "run", name)
        who = _podman("exec", name, "/opt/mcphub/bin/python", "-c", _LOOK).strip()
        if who != "10001 read-only":
            sys.exit(f"The container is not what it says: {who}")
        _podman("exec", name, "mcphub", "audit", "verify")
        print("own user, root read-only, health check and audit verify well")
    finally:
        _podman("rm", "-f", "-t", "30", "-v", name, may_fail=True)
        _podman("volume", "rm", name, may_fail=True)


_LOOK = """
import os
try: open('/opt/mcphub/x', 'w'); root = 'writable'
except OSError as error: root = 'read-only' if error.errno == 30 else 'not writable'
print(os.getuid(), root)
"""


def run_compose(scratch: Path) -> None:
    """Bring deploy/compose.yaml up with both images made here; call; take it down."""
    if not _has(POSTGRESQL):
        _base(scratch)
        context = scratch / "postgresql"
        shutil.copytree(IMAGES, context)
        file = str(context / "Containerfile.postgresql")
        _bud(context, "-f", file, "-t", POSTGRESQL, with_certificates=False)
    venv.create(scratch / "compose", with_pip=True)
    _run([str(scratch / "compose/bin/pip"), "install", "-q", "--disable-pip-version-check", "podman-compose"])
    project, port = f"mcphub-try-{os.getpid()}", _free_port()
    own = {"MCPHUB_ALLOWED_HOSTS": "hub.example", "MCPHUB_PUBLIC_URL": "http://hub.example", "MCPHUB_PORT": str(port)}
    own |= {"POSTGRES_PASSWORD": "secret1word", "POSTGRES_IMAGE": POSTGRESQL, "MCPHUB_IMAGE": "localhost/mcphub:latest"}
    file = str(hashes.HOME / "deploy" / "compose.yaml")
    compose = [str(scratch / "compose/bin/podman-compose"), "-p", project, "-f", file]
    environment = os.environ | own | _runtime(scratch)
    try:
        _run([*compose, "up", "-d"], environment)
        print("compose with PostgreSQL:", first_call.make(f"http://127.0.0.1:{port}", _key(f"{project}_hub_1")))
        _podman("exec", f"{project}_hub_1", "mcphub", "audit", "verify")
    finally:
        subprocess.run([*compose, "down", "-v", "-t", "30"], env=environment, capture_output=True)


def run_unit(scratch: Path) -> None:
    """Boot Debian with the wheel and the unit in a container; call; ask systemd how open the service is."""
    wheel = try_wheel.build(scratch)
    _base(scratch, UNIT_BASE, UNIT_SUITE, (*PACKAGES, "systemd", "dbus"))
    context = scratch / "unit"
    context.mkdir()
    unit = hashes.HOME / "deploy" / "mcphub.service"
    for file in (unit, wheel, hashes.FOLDER / "mcphub.txt", IMAGES / "Containerfile.systemd"):
        shutil.copy(file, context)
    image, name, port = "localhost/mcphub-unit:latest", f"mcphub-try-{os.getpid()}", _free_port()
    _bud(context, "-f", str(context / "Containerfile.systemd"), "--build-arg", f"BASE={UNIT_BASE}", "-t", image)
    machine = ["--systemd=always", "--privileged", "-v", "/sys/fs/cgroup:/sys/fs/cgroup"]
    try:
        _podman("run", "-d", "--name", name, *machine, "-p", f"127.0.0.1:{port}:8000", image)
        print("unit:", first_call.make(f"http://127.0.0.1:{port}", _key(name, journal=True)))
        print(_podman("exec", name, "systemd-analyze", "security", "--no-pager", "mcphub").splitlines()[-1])
        _podman("exec", name, "systemctl", "stop", "mcphub")
        state = _podman("exec", name, "systemctl", "show", "-p", "Result", "--value", "mcphub").strip()
        if state != "success":
            sys.exit(f"The service stopped with {state}.")
    finally:
        _podman("rm", "-f", "-t", "10", "-v", name, may_fail=True)


def _base(scratch: Path, name: str = BASE, suite: str = SUITE, packages: tuple[str, ...] = PACKAGES) -> None:
    """Make the root file system that the images begin with: Debian's essential packages, Python, no manuals."""
    if _has(name):
        return
    archive = scratch / "base.tar"
    _bootstrap(archive, suite, packages, int(time.time()))
    _podman("import", "-q", str(archive), name)


def _bootstrap(archive: Path, suite: str, packages: tuple[str, ...], epoch: int) -> None:
    without = [f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in ("man", "doc", "locale")]
    command = ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", *without, suite, str(archive)]
    _run(command, os.environ | {"SOURCE_DATE_EPOCH": str(epoch)})


def _bud(context: Path, *words: str, with_certificates: bool = True) -> None:
    trusted = ["-v", "/etc/ssl/certs:/etc/ssl/certs:ro"] if with_certificates else []
    how = ["--isolation=chroot", "--format=docker", "--network=host", "--layers", *trusted]
    _run(["buildah", "bud", *how, *words, str(context)])


def _key(container: str, *, journal: bool = False) -> str:
    """Wait for the key of a first start. `journal`: it is in the journal of a machine, not in the container's log."""
    asked = ["exec", container, "journalctl", "-o", "cat", "-u", "mcphub"] if journal else ["logs", container]
    ends = time.monotonic() + first_call.START_SECONDS
    while time.monotonic() < ends:
        logged = _podman(*asked, may_fail=True)
        if "\nready " in logged and (key := first_call.key_in(logged)):
            return key
        time.sleep(0.5)
    raise first_call.NotAsShipped(f"{container} printed no key: {_podman(*asked, may_fail=True)[-2000:]}")


def _has(image: str) -> bool:
    return subprocess.run(["podman", "image", "exists", image]).returncode == 0


def _size(image: str) -> str:
    return f"{int(_podman('image', 'inspect', '--format', '{{.Size}}', image)) // 2**20} MiB"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _podman(*words: str, may_fail: bool = False) -> str:
    return _run(["podman", *words], os.environ | _runtime(Path(tempfile.gettempdir())), may_fail=may_fail)


def _runtime(folder: Path) -> dict[str, str]:
    """Return the variables with which podman starts containers here."""
    if _RUNTIME is None:
        return {}
    file = folder / f"mcphub-containers-{os.getpid()}.conf"
    file.write_text(_RUNTIME)
    return {"CONTAINERS_CONF": str(file)}


_RUNTIME: str | None = None


def _choose_runtime(scratch: Path) -> None:
    """Take podman as it is where it can start a container, else PLAIN_RUNTIME."""
    global _RUNTIME
    _base(scratch)
    tried = subprocess.run(["podman", "run", "--rm", BASE, "true"], capture_output=True, text=True)
    if tried.returncode:
        if not shutil.which("runc"):
            sys.exit(f"Install runc: podman's own runtime starts nothing here. {tried.stderr[-500:]}")
        _RUNTIME = PLAIN_RUNTIME
        print("podman uses runc and small bounds, because of:", " ".join(tried.stderr.split())[:200])


def _run(command: list[str], environment: dict[str, str] | None = None, *, may_fail: bool = False) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode and not may_fail:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout + (done.stderr if may_fail else "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["can", "build", "prove", "try", "try-compose", "try-unit"])
    parser.add_argument("--tools", action="store_true", help="the tag with Node.js, npm and uv too")
    options = parser.parse_args()
    missing = [program for program in ("mmdebstrap", "buildah", "podman") if not shutil.which(program)]
    if missing:
        print(f"Install {', '.join(missing)} first: Debian's packages have these names.", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="mcphub-image-") as name:
        scratch = Path(name)
        if options.what == "can":
            print(why := why_not(scratch), end="", file=sys.stderr)
            return 3 if why else 0
        if options.what == "build":
            build(scratch, with_tools=options.tools)
            return 0
        if options.what == "prove":
            prove(scratch)
            return 0
        _choose_runtime(scratch)
        {"try": run, "try-compose": run_compose, "try-unit": run_unit}[options.what](scratch)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except first_call.NotAsShipped as fault:
        sys.exit(str(fault))
