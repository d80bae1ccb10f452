"""Compiled code on disk, found again by what it was made from.

A file is a magic word, the SHA-256 of key and payload, and the payload. It is written under
another name and renamed, so that a reader sees all of it or nothing; whatever is damaged, or of
another key, is thrown away and made anew. Many processes may share a folder: the worst that a race
costs is making something twice.

Payloads are code that this process will run, and no checksum tells who wrote one. So a folder that
belongs to another user, or that others may write to, is not used at all.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from ..base.settings import settings

T = TypeVar("T")

_MAGIC = b"TLOOM\x02\r\n"
_HEAD = len(_MAGIC) + hashlib.sha256().digest_size
_SUFFIX = ".bin"
_STALE_SECONDS = 3600  # a temporary file this old was left by a crash
_TOUCH_SECONDS = 3600  # uses are noted this often, so that hits seldom write
_PRUNED_TO = 0.8  # of the limit, so that pruning is rare
_MOST_IN_MEMORY = 2 << 20  # bytes, where no folder serves


def cache_key(*parts: str | bytes) -> str:
    """A name for what `parts` determine; give everything that the result depends on.

    >>> cache_key("a", "bc") == cache_key("ab", "c")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@cache
def package_stamp(name: str) -> str:
    """A string that changes when an installed package does; does not import the package."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        return f"{name} missing"
    folder = Path(spec.origin).parent
    stamps = []
    for path in sorted([*folder.glob("*.py"), *folder.glob("**/*.so")]):
        about = path.stat()
        stamps.append(f"{path.name}:{about.st_size}:{about.st_mtime_ns}")
    return cache_key(name, *stamps)


class ObjectCache:
    """Bytes by key in a folder, the least recently used thrown out beyond `limit` bytes.

    Of a folder that cannot be written to, or not be trusted, a warning says so once; then memory
    serves instead.
    """

    def __init__(self, folder: Path | None, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._memory: OrderedDict[str, bytes] = OrderedDict()
        self._unpruned = limit  # bytes written since the last pruning; the first write prunes

    def get(self, key: str) -> bytes | None:
        """What was put under this key, or None."""
        if key in self._memory:
            return self._memory[key]
        if self._folder is None or not self._is_trusted(self._folder):
            return None
        path = self._path(self._folder, key)
        data = _read(path)
        if data is None:
            return None
        payload = data[_HEAD:]
        if data[:_HEAD] != _head(key, payload):
            _remove(path)
            return None
        _note_use(path)
        return payload

    def put(self, key: str, payload: bytes) -> None:
        """Keep bytes under a key. Never fails: a cache may always forget."""
        if self._folder is None:
            self._remember(key, payload)
            return
        temporary = self._folder / f".{uuid.uuid4().hex}.tmp"
        try:
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            if not self._is_trusted(self._folder):
                self._remember(key, payload)
                return
            temporary.write_bytes(_head(key, payload) + payload)
            temporary.replace(self._path(self._folder, key))
        except OSError as error:
            _remove(temporary)
            self._remember(key, payload)
            if not isinstance(error, IsADirectoryError):  # one folder is in the way of one entry
                self._give_up(f"cannot write to the kernel cache {self._folder} ({error.strerror})")
            return
        self._unpruned += len(payload)
        if self._unpruned > self._limit // 16:
            self.prune()

    def _remember(self, key: str, payload: bytes) -> None:
        """Keep bytes in memory, the oldest thrown out."""
        self._memory[key] = payload
        total = sum(map(len, self._memory.values()))
        while total > _MOST_IN_MEMORY and len(self._memory) > 1:
            total -= len(self._memory.popitem(last=False)[1])

    def forget(self, key: str) -> None:
        """Throw out what is under a key."""
        self._memory.pop(key, None)
        if self._folder is not None:
            _remove(self._path(self._folder, key))

    def get_or_make(
        self, key: str, make: Callable[[], bytes], read: Callable[[bytes], bytes] = bytes
    ) -> bytes:
        """What is under the key; made and kept if there is nothing that can be read."""
        found = self.read(key, read)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def read(self, key: str, read: Callable[[bytes], T]) -> T | None:
        """What `read` makes of the bytes under the key; None where there are none to be read.

        What was kept is whole, but nothing says that this program wrote it: any error of `read`
        means that it is of no use.
        """
        found = self.get(key)
        if found is None:
            return None
        try:
            return read(found)
        except Exception:
            self.forget(key)
            return None

    def prune(self, limit: int | None = None) -> int:
        """Throw out the least recently used beyond the limit; the bytes that are left."""
        limit = self._limit if limit is None else limit
        self._unpruned = 0
        files = sorted(self._files(), reverse=True)  # the last used first
        total = sum(size for _, size, _ in files)
        if total > limit:
            while files and total > limit * _PRUNED_TO:
                _, size, path = files.pop()
                _remove(path)
                total -= size
        return total

    def clear(self) -> None:
        """Throw everything out."""
        self._memory.clear()
        self.prune(0)

    def size(self) -> tuple[int, int]:
        """Files and bytes in the folder."""
        files = self._files()
        return len(files), sum(size for _, size, _ in files)

    def _files(self) -> list[tuple[float, int, Path]]:
        """Last use, size and path of each file; old temporary files are removed on the way."""
        found: list[tuple[float, int, Path]] = []
        if self._folder is None or not self._folder.is_dir():
            return found
        for path in self._folder.iterdir():
            try:
                about = path.stat()
            except OSError:  # another process removed it
                continue
            if not stat.S_ISREG(about.st_mode):
                continue
            if path.suffix == _SUFFIX:
                found.append((about.st_mtime, about.st_size, path))
            elif path.suffix == ".tmp" and time.time() - about.st_mtime > _STALE_SECONDS:
                _remove(path)
        return found

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / f"{key}{_SUFFIX}"

    def _is_trusted(self, folder: Path) -> bool:
        """Whether nobody else can put code there; otherwise this and every later answer is no."""
        complaint = _distrust(folder)
        if complaint:
            self._give_up(f"the kernel cache {folder} {complaint}, who could let us run their code")
        return not complaint

    def _give_up(self, reason: str) -> None:
        self._folder = None
        warnings.warn(
            f"{reason}; compiled kernels are kept in memory only. TILELOOM_CACHE_DIR names another "
            "folder.",
            stacklevel=4,
        )


def _head(key: str, payload: bytes) -> bytes:
    """What stands before a payload in its file."""
    digest = hashlib.sha256(key.encode())
    digest.update(payload)
    return _MAGIC + digest.digest()


def _distrust(folder: Path) -> str:
    """Why a folder must not be used: as for SSH, others could write there. Empty if they cannot."""
    try:
        about = folder.stat()
    except OSError:
        return ""  # nothing is there
    if hasattr(os, "getuid") and about.st_uid not in (os.getuid(), 0):
        return f"belongs to user {about.st_uid}"
    if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written to by others (mode {stat.S_IMODE(about.st_mode):o})"
    return ""


def _read(path: Path) -> bytes | None:
    """The bytes of a regular file; None for anything else, which might never end."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


def _open_at_once(path: str, flags: int) -> int:
    """Open what may be a pipe without waiting for somebody to write to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # not ours to remove; it is only a cache


def _note_use(path: Path) -> None:
    try:
        if time.time() - path.stat().st_mtime > _TOUCH_SECONDS:
            os.utime(path)
    except OSError:
        return  # a folder that can only be read is as good


@cache
def _cache_in(folder: Path | None, limit: int) -> ObjectCache:
    return ObjectCache(folder, limit)


def object_cache() -> ObjectCache:
    """The cache that the settings name."""
    current = settings()
    return _cache_in(current.cache_dir if current.cache else None, current.cache_size)
