"""The place of an archive: a folder, or the objects below `s3://bucket/prefix`.

Objects are written once: the archiver overwrites and deletes none. A search keeps the files that it reads in
`archive/cache` of the data directory, up to the bound of one search; verification reads them anew. A month is made
in `archive/outbox` of that directory, and goes from there file by file, its manifest last.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from django.conf import settings

from invocations.chain.verifier import Bad
from mcphub.features.archive import files
from sessions_app.protocol.errors import EgressRefused, HubError
from tools_catalog.egress import guard, object_store
from tools_catalog.egress.object_store import PIECE_BYTES, Credential, ObjectStore, StoredObject
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.egress.sending import PATIENCE_SECONDS, HttpSender, NotDelivered

MONTH: Final = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])")
MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
S3: Final = "s3://"
_WRITTEN: Final = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[^?#]*)?")
_MIB = 1024 * 1024
_PAUSES_SECONDS = (0.5, 2.0, 8.0)
"""Between the tries of a request that found the store busy or gone."""
_MEANINGS = {404: errno.ENOENT, 412: errno.EEXIST}
_MOST_SMALL = 256
_small: dict[tuple[str, str, str], bytes] = {}
"""Manifests and signatures that were read, by place, key and entity tag: a place lists its objects each time."""
_Found = TypeVar("_Found")


class IsBusy(Exception):
    """Another process writes to the place."""


class ArchivePlace(Protocol):
    """Reads raise OSError, and FileNotFoundError for a missing file."""

    @property
    def workshop(self) -> Path:
        """The folder where months are made."""

    def months(self) -> list[str]:
        """Return the months with a manifest, oldest first."""

    def names(self, month: str) -> set[str]: ...

    def small(self, month: str, name: str, most: int) -> bytes:
        """Return a small file, or its first `most` bytes."""

    def fetched(
        self, month: str, name: str, told: Mapping[str, Any], *, may_be_kept: bool = False
    ) -> AbstractContextManager[Path]:
        """Return a file of a month for the time of a block; nobody has compared its digest with `told`."""

    def publish(self, made: Path, month: str, sent: Callable[[int], object]) -> None:
        """Make a folder of files with their signed manifest the month. Raises IsBusy where it stands already."""


@contextmanager
def opened(place: str | Path, rest: Callable[[], float] = lambda: PATIENCE_SECONDS) -> Iterator[ArchivePlace]:
    """Yield a place. `rest` returns the seconds that reading may still take. Raises OSError where it has no access."""
    if "://" not in str(place):
        yield FolderPlace(Path(place))
        return
    if not _WRITTEN.fullmatch(str(place)):
        raise OSError(errno.EINVAL, "it is neither a folder nor s3://bucket/prefix", str(place))
    credential, address, region = _access(str(place))
    with HttpSender(EgressPolicy.from_settings(), guard.proxy_of_settings()) as sender:
        yield ObjectPlace(str(place), ObjectStore(sender, address, credential, region), rest)


def keeps_versions(place: str) -> bool:
    """Return whether a bucket keeps versions of its objects. Raises OSError."""
    with opened(place) as found:
        assert isinstance(found, ObjectPlace)
        return found.keeps_versions()


class FolderPlace:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    @property
    def workshop(self) -> Path:
        return self._folder

    def months(self) -> list[str]:
        if not self._folder.is_dir():
            return []
        return sorted(each.name for each in self._folder.iterdir() if MONTH.fullmatch(each.name) and each.is_dir())

    def names(self, month: str) -> set[str]:
        return {path.name for path in (self._folder / month).iterdir()}

    def small(self, month: str, name: str, most: int) -> bytes:
        with (self._folder / month / name).open("rb") as file:
            return file.read(most)

    def fetched(
        self, month: str, name: str, told: Mapping[str, Any], *, may_be_kept: bool = False
    ) -> AbstractContextManager[Path]:
        return nullcontext(self._folder / month / name)

    def publish(self, made: Path, month: str, sent: Callable[[int], object]) -> None:
        made.rename(self._folder / month)
        files.sync_folder(self._folder)


class ObjectPlace:
    """Objects as they were listed when they were first asked for."""

    def __init__(self, name: str, store: ObjectStore, rest: Callable[[], float]) -> None:
        self._name, self._store, self._rest = name.rstrip("/"), store, rest
        self._objects: dict[str, StoredObject] | None = None

    def __str__(self) -> str:
        return self._name

    @property
    def workshop(self) -> Path:
        return _own_folder("outbox") / hashlib.sha256(self._name.encode()).hexdigest()[:16]

    def months(self) -> list[str]:
        found = (key.partition("/") for key in self._listed())
        return sorted(month for month, _, name in found if name == MANIFEST and MONTH.fullmatch(month))

    def names(self, month: str) -> set[str]:
        return {key.removeprefix(f"{month}/") for key in self._listed() if key.startswith(f"{month}/")}

    def small(self, month: str, name: str, most: int) -> bytes:
        key = f"{month}/{name}"
        known = self._name, key, self._object(key).etag
        if known not in _small:
            if len(_small) >= _MOST_SMALL:
                _small.clear()
            _small[known] = b"".join(self._pieces(key, most))
        return _small[known]

    @contextmanager
    def fetched(self, month: str, name: str, told: Mapping[str, Any], *, may_be_kept: bool = False) -> Iterator[Path]:
        key, folder = f"{month}/{name}", _own_folder("cache")
        kept = folder / told["sha256"]
        if may_be_kept:
            with _held(kept) as is_there:
                if is_there and files.digest(kept) == told["sha256"]:
                    yield kept
                    return
                kept.unlink(missing_ok=True)
        size = self._object(key).size
        if size > 2 * told["bytes"] + _MIB:  # no row of it need be named
            raise Bad(f"The file {key} was changed after it was archived: it has {size} bytes, not {told['bytes']}.")
        _make_room(folder, size)
        draft = folder / f"{secrets.token_hex(8)}.draft"
        try:
            with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                for piece in self._pieces(key, size):
                    file.write(piece)
                file.flush()
                path = draft
                if may_be_kept and files.digest(draft) == told["sha256"]:
                    with suppress(FileExistsError):  # of another search, which reads it
                        kept.hardlink_to(draft)
                        draft.unlink()
                        path = kept
                fcntl.flock(file, fcntl.LOCK_SH)
                yield path
        finally:
            draft.unlink(missing_ok=True)

    def publish(self, made: Path, month: str, sent: Callable[[int], object]) -> None:
        signed = self.workshop / month
        if made != signed:
            made.rename(signed)
            files.sync_folder(self.workshop)
        last = [SIGNATURE, MANIFEST]
        for name in sorted(path.name for path in signed.iterdir() if path.name not in last) + last:
            self._write(signed / name, f"{month}/{name}", sent)
        shutil.rmtree(signed)
        self._objects = None

    def keeps_versions(self) -> bool:
        return self._tried("", self._store.keeps_versions)

    def _write(self, path: Path, key: str, sent: Callable[[int], object]) -> None:
        """Write an object and read it back; one that a run wrote before it was killed stays."""
        digest = files.digest(path)
        if key not in self._listed():
            with suppress(FileExistsError):  # its answer was lost, or another run was faster
                self._tried(key, lambda: self._store.put_file(key, "application/octet-stream", path, sent))
            self._objects = None
        found = hashlib.sha256()
        for piece in self._pieces(key, self._object(key).size):
            found.update(piece)
        if found.hexdigest() != digest:
            raise IsBusy(
                f"{self}/{key} is there with other content: another run archives this month, or one did and was ended. "
                f"If none goes on, remove the objects of {key.partition('/')[0]}, which is not signed there, and run "
                "the command again"
            )

    def _listed(self) -> dict[str, StoredObject]:
        if self._objects is None:
            self._objects = self._tried("", lambda: self._store.objects(seconds=self._patience()))
        return self._objects

    def _object(self, key: str) -> StoredObject:
        found = self._listed().get(key)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self}/{key}")
        return found

    def _pieces(self, key: str, most: int) -> Iterator[bytes]:
        size = min(most, self._object(key).size)
        for begin in range(0, size, PIECE_BYTES):
            yield self._tried(key, partial(self._piece, key, begin, min(PIECE_BYTES, size - begin)))

    def _piece(self, key: str, begin: int, size: int) -> bytes:
        return self._store.piece(key, begin, size, seconds=self._patience())

    def _patience(self) -> float:
        return max(0.1, min(PATIENCE_SECONDS, self._rest()))

    def _tried(self, key: str, step: Callable[[], _Found]) -> _Found:
        """Return the answer to a request; try it again where the store was busy, or gone. Raises OSError."""
        pauses = iter(_PAUSES_SECONDS)
        while True:
            try:
                return step()
            except NotDelivered as problem:
                address = f"{self}/{key}".rstrip("/")
                if key and problem.status in _MEANINGS:
                    number = _MEANINGS[problem.status]
                    raise OSError(number, os.strerror(number), address) from problem
                may_pass = problem.status in (0, 429) or problem.status >= 500
                pause = max(next(pauses, self._rest()), problem.after_seconds)
                if not may_pass or isinstance(problem.__cause__, HubError) or pause >= self._rest():
                    raise OSError(errno.EIO, str(problem).rstrip("."), address) from problem
            time.sleep(pause)  # a store sends no word when it is well again


def _access(place: str) -> tuple[Credential, str, str]:
    """Return credential, address and region, from the names of the environment and the file that all S3 tools know."""
    if not object_store.is_there():
        raise OSError(errno.ENOENT, object_store.MISSING, place)
    from botocore.credentials import EnvProvider, SharedCredentialProvider
    from botocore.exceptions import BotoCoreError

    given = os.environ.get
    file = given("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    try:
        found = EnvProvider().load() or SharedCredentialProvider(file, given("AWS_PROFILE")).load()
    except BotoCoreError as error:
        raise OSError(errno.EACCES, str(error).rstrip("."), place) from error
    if found is None:
        raise OSError(errno.EACCES, "no AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, and no credentials file", place)
    region = given("AWS_REGION") or given("AWS_DEFAULT_REGION") or "us-east-1"
    variable = next((name for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if given(name)), "")
    endpoint = os.environ[variable] if variable else f"https://s3.{region}.amazonaws.com"
    try:
        EgressPolicy.from_settings().check_url(endpoint)
    except EgressRefused as error:
        raise OSError(errno.EINVAL, f"{variable or 'AWS_REGION'}: {str(error).rstrip('.')}", place) from error
    credential = Credential(found.access_key, found.secret_key, found.token or "")
    return credential, f"{endpoint.rstrip('/')}/{place.removeprefix(S3).strip('/')}", region


def _own_folder(name: str) -> Path:
    folder: Path = settings.MCPHUB_DATA_DIR / "archive" / name
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def _held(path: Path) -> Iterator[bool]:
    """Keep a file of the cache for the time of the block, if it is there."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        yield False
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _make_room(folder: Path, size: int) -> None:
    """Remove the oldest files, of killed processes too, until a file of this size fits."""
    kept = [(each.stat().st_mtime, each.stat().st_size, each.name) for each in os.scandir(folder)]
    least = sum(each[1] for each in kept) + size - settings.MCPHUB_ARCHIVE_SEARCH_MIB * _MIB
    for _, removed, name in sorted(kept):
        if least <= 0:
            return
        with suppress(OSError), (folder / name).open("rb") as file:  # somebody reads it, or removed it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / name).unlink()
            least -= removed
