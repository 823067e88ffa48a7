"""Changes to files that leave, whatever fails, what was there before or what was meant.

Everything that writes a log goes through here.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import LogDirInUseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

_MODE = 0o644
_NO_COPY_IN_KERNEL = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
_COPY_BYTES = 8 << 20
_FLUSHES = 8
_WRITE_BACK_BYTES = 1 << 20
"""So much at a time is sent to the disk at once: what is left for fsync at the end is little then."""
_SYNC_FILE_RANGE_WRITE = 2


def _of_the_system(name: str) -> Callable[..., int] | None:
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function


_sync_file_range = _of_the_system("sync_file_range")


class AppendFile:
    """A file that is written at its end, by nobody else.

    The length it was left with is checked before each change: what another process has written is neither
    overwritten nor cut off.

    Attributes:
        path: its path.
        size_bytes: how much of it is written. A preallocated file is longer, zeros follow.
    """

    __slots__ = (
        *("_descriptor", "_length", "_preallocated_bytes", "_sent_bytes", "_sent_from"),
        *("path", "size_bytes"),
    )

    def __init__(
        self,
        path: str,
        size_bytes: int = 0,
        *,
        allocated_bytes: int = 0,
        sent_from: int = 0,
        exclusive: bool = False,
    ) -> None:
        """Open `path`, or create it, with its first `size_bytes` bytes kept, the rest cut off.

        Args:
            allocated_bytes: extend it to this with zeros, as a hole.
            sent_from: of a file that has as many bytes, what is written is sent to the disk at once; a
                smaller one is left to the system.
            exclusive: raise FileExistsError if the file exists.
        """
        self.path = path
        self.size_bytes = size_bytes
        self._preallocated_bytes = allocated_bytes
        self._length = size_bytes
        self._sent_bytes, self._sent_from = size_bytes, sent_from
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if exclusive else 0)
        self._descriptor = os.open(path, flags, _MODE)
        try:
            with naming(path):
                self._resize()
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, data: Buffer) -> None:
        """Write `data` behind what is written. If that fails the file is as it was.

        Raises LogDirInUseError if the file has another length than it was left with; OSError.
        """
        self._check_length()
        position, view = self.size_bytes, memoryview(data).cast("B")
        try:
            while len(view):
                written = os.pwrite(self._descriptor, view, position)
                position, view = position + written, view[written:]
        except BaseException as error:
            self._resize()
            _name(error, self.path)
            raise
        self._written(position)

    def append_from(self, source: str, position: int, size_bytes: int) -> None:
        """Write what lies in the file `source`, without reading it where the system can copy by itself.

        If that fails the file is as it was. Raises as `append`.
        """
        self._check_length()
        try:
            copied = copy_range(source, position, size_bytes, self._descriptor, self.size_bytes)
        except BaseException:
            self._resize()
            raise
        self._written(self.size_bytes + copied)

    def cut(self, size_bytes: int) -> None:
        """Keep the first `size_bytes` bytes; a preallocated file stays as long as it is.

        Raises as `append`.
        """
        self._check_length()
        self.size_bytes = size_bytes
        self._resize()

    def trim(self) -> None:
        """Give back what was preallocated and is not used. Raises as `append`."""
        self._check_length()
        self._preallocated_bytes = 0
        self._resize()

    def flush(self) -> None:
        """Have it on the disk (fsync)."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _written(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._length = max(self._length, size_bytes)
        if size_bytes >= max(self._sent_from, self._sent_bytes + _WRITE_BACK_BYTES):
            start_writing_back(self._descriptor, self._sent_bytes, size_bytes - self._sent_bytes)
            self._sent_bytes = size_bytes

    def _resize(self) -> None:
        self._sent_bytes = min(self._sent_bytes, self.size_bytes)
        if os.fstat(self._descriptor).st_size != self.size_bytes:
            os.ftruncate(self._descriptor, self.size_bytes)
        if self._preallocated_bytes > self.size_bytes:
            os.ftruncate(self._descriptor, self._preallocated_bytes)
        self._length = max(self.size_bytes, self._preallocated_bytes)

    def _check_length(self) -> None:
        found = os.fstat(self._descriptor).st_size
        if found != self._length:
            raise LogDirInUseError(
                f"expected {self._length} bytes, as this writer left the file, found {found}: another "
                "process works in the log directory. Nothing was written; close the log, and run kafkalog "
                "verify",
                path=self.path,
                position=self.size_bytes,
            )


def start_writing_back(descriptor: int, position: int, size_bytes: int) -> None:
    """Have the system begin to write these bytes of a file to the disk; nothing is promised (Linux)."""
    if _sync_file_range is not None:
        start, size = ctypes.c_int64(position), ctypes.c_int64(size_bytes)
        _sync_file_range(descriptor, start, size, _SYNC_FILE_RANGE_WRITE)


def copy_range(source: str, position: int, size_bytes: int, descriptor: int, at: int) -> int:
    """Copy bytes of the file `source` into an open one: `size_bytes`, all of which must be there.

    Within the kernel where it can be done (a file system may share the blocks), else through memory.
    """
    done, within_kernel = 0, hasattr(os, "copy_file_range")
    origin = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while done < size_bytes:
            left = size_bytes - done
            if within_kernel:
                try:
                    count = os.copy_file_range(origin, descriptor, left, position + done, at + done)
                except OSError as error:
                    if error.errno not in _NO_COPY_IN_KERNEL:
                        raise
                    within_kernel = False
                    continue
            else:
                data = os.pread(origin, min(left, _COPY_BYTES), position + done)
                count = os.pwrite(descriptor, data, at + done) if data else 0
            if count == 0:
                raise OSError(errno.EIO, f"the file ends before byte {position + size_bytes}", source)
            done += count
    finally:
        os.close(origin)
    return done


def replace_file(path: str | Path, data: bytes, *, flush: bool = True) -> None:
    """Put a file of this content in the place of `path`: after a crash there is the old one or the new.

    Through `<name>.tmp`, as brokers write their checkpoints (Kafka: CheckpointFile).

    Args:
        flush: have it on the disk. Without, a crash may leave a part of it: flush the file, and its
            directory, before anything relies on it.
    """
    replace_files({path: data}, flush=flush)


def replace_files(contents: Mapping[str | Path, bytes], *, flush: bool = True) -> None:
    """The same for several files, each by itself: after a crash any of them may be the old one. All are
    flushed together."""
    temporary = {path: f"{path}.tmp" for path in contents}
    try:
        for path, data in contents.items():
            with naming(path):
                write_file(temporary[path], data)
        if flush:
            flush_files([*temporary.values()])
        for path in contents:
            os.replace(temporary[path], path)  # noqa: PTH105
    except BaseException:
        for name in temporary.values():
            with contextlib.suppress(OSError):
                os.unlink(name)  # noqa: PTH108
        raise
    if flush:
        for directory in {Path(path).parent for path in contents}:
            fsync_directory(directory)


@contextlib.contextmanager
def opened_to_overwrite(path: str) -> Iterator[int]:
    """Open an existing file to overwrite some of its bytes; yield its descriptor."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        with naming(path):
            yield descriptor
    finally:
        os.close(descriptor)


def write_file(path: str, data: Buffer) -> None:
    """Write a file with this content, over any earlier one. A crash may leave a part of it."""
    file = AppendFile(path)
    try:
        file.append(data)
    finally:
        file.close()


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Have an OSError that names no file, as of a full disk, name this one."""
    try:
        yield
    except OSError as error:
        _name(error, path)
        raise


def _name(error: BaseException, path: str | Path) -> None:
    if isinstance(error, OSError) and error.filename is None:
        error.filename = str(path)


def flush_files(paths: Sequence[str | Path]) -> None:
    """Have files on the disk, several at a time: each waits for the disk."""
    if len(paths) == 1:
        flush_file(paths[0])
    elif paths:
        with ThreadPoolExecutor(min(_FLUSHES, len(paths))) as threads:
            list(threads.map(flush_file, paths))


def flush_file(path: str | Path) -> None:
    """Wait until what was written to the file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_directory(path: str | Path) -> None:
    """Make new names, renames and removals in the directory last."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_file(path: str | Path) -> None:
    """Remove the file if there is one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def remove_folder(folder: Path) -> None:
    """Remove the folder if there is one, with all that is in it. What another process is just creating in it
    goes too, or fails."""
    gone = gone_name(folder)
    shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def gone_name(folder: Path) -> Path:
    """What a folder is called while it is removed."""
    return folder.with_name(f"{folder.name}-gone")
