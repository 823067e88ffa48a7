"""Change files so that a failure leaves either the old content or the new.

All writes to a log use these functions. None of them writes through a link: a link is refused, replaced or
removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from native_log.errors import LogDirInUseError
from native_log.prefetch import submit
from native_log.storage.descriptors import open_descriptor
from native_log.storage.hard_links import check_only_link
from native_log.storage.opening import check_regular_file, open_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from typing_extensions import Buffer

_NO_COPY_IN_KERNEL = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM}
_COPY_BYTES = 8 << 20
_FLUSH_THREADS = 8
_WRITEBACK_BYTES = 1 << 20
"""Start writeback to the disk each time this many bytes were written: little is left for fsync at the end."""
_SYNC_FILE_RANGE_WRITE = 2


def _libc_function(name: str) -> Callable[..., int] | None:
    """Return a function of the C library; None if there is none of this name."""
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function


_sync_file_range = _libc_function("sync_file_range")


class AppendFile:
    """A file that only this writer changes, by appending to it.

    Before a change the length of the file is checked. So bytes that another process has written are neither
    overwritten nor truncated.

    Attributes:
        path: path of the file.
        size_bytes: number of bytes written. A preallocated file is longer; the rest are zeros.
    """

    __slots__ = (
        *("_descriptor", "_length", "_preallocated_bytes", "_writeback_end", "_writeback_from"),
        *("path", "size_bytes"),
    )

    def __init__(
        self,
        path: str,
        size_bytes: int = 0,
        *,
        allocated_bytes: int = 0,
        writeback_from: int = 0,
        exclusive: bool = False,
    ) -> None:
        """Open or create the file. Keep its first `size_bytes` bytes and truncate the rest.

        Args:
            allocated_bytes: extend the file to this size by a hole.
            writeback_from: start writeback to the disk as soon as the file has this many bytes. Until then
                the system decides when to write them.
            exclusive: raise FileExistsError if the file exists.

        Raises OSError, also if the path is a link or no regular file, or if the file has other hard links.
        """
        self.path = path
        self.size_bytes = size_bytes
        self._preallocated_bytes = allocated_bytes
        self._length = size_bytes
        self._writeback_end, self._writeback_from = size_bytes, writeback_from
        self._descriptor = open_file(path, os.O_RDWR | os.O_CREAT | (os.O_EXCL if exclusive else 0))
        try:
            with path_in_errors(path):
                check_only_link(path, self._descriptor)
                self._resize()
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, data: Buffer, *, check_length: bool = True) -> None:
        """Append `data`. After an error the file is as it was before.

        Args:
            data: bytes.
            check_length: False: the caller has just checked a file that changes together with this one.

        Raises LogDirInUseError if another process has changed the length of the file; OSError.
        """
        if check_length:
            self._check_length()
        position, view = self.size_bytes, memoryview(data).cast("B")
        try:
            while len(view):
                written = os.pwrite(self._descriptor, view, position)
                position, view = position + written, view[written:]
        except BaseException as error:
            self._resize()
            _add_path(error, self.path)
            raise
        self._extend_to(position)

    def append_from(self, source: str, position: int, size_bytes: int) -> None:
        """Append bytes of the file `source`, without reading them if the system can copy files.

        After an error the file is as it was before. Raises as `append`.
        """
        self._check_length()
        try:
            with path_in_errors(self.path):
                copied = copy_range(source, position, size_bytes, self._descriptor, self.size_bytes)
        except BaseException:
            self._resize()
            raise
        self._extend_to(self.size_bytes + copied)

    def truncate(self, size_bytes: int) -> None:
        """Keep the first `size_bytes` bytes. A preallocated file keeps its length.

        Raises as `append`.
        """
        self._check_length()
        self.size_bytes = size_bytes
        self._resize()

    def trim(self) -> None:
        """Truncate the preallocated bytes that are not used. Raises as `append`."""
        self._check_length()
        self._preallocated_bytes = 0
        self._resize()

    def flush(self) -> None:
        """Flush the file to disk (fsync)."""
        with path_in_errors(self.path):
            os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)

    def _extend_to(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._length = max(self._length, size_bytes)
        if size_bytes >= max(self._writeback_from, self._writeback_end + _WRITEBACK_BYTES):
            start_writeback(self._descriptor, self._writeback_end, size_bytes - self._writeback_end)
            self._writeback_end = size_bytes

    def _resize(self) -> None:
        self._writeback_end = min(self._writeback_end, self.size_bytes)
        with path_in_errors(self.path):
            if os.fstat(self._descriptor).st_size != self.size_bytes:
                os.ftruncate(self._descriptor, self.size_bytes)
            if self._preallocated_bytes > self.size_bytes:
                os.ftruncate(self._descriptor, self._preallocated_bytes)
        self._length = max(self.size_bytes, self._preallocated_bytes)

    def _check_length(self) -> None:
        length = os.fstat(self._descriptor).st_size
        if length != self._length:
            raise LogDirInUseError(
                f"expected {self._length} bytes, as this writer left the file, found {length}: another "
                "process works in the log directory. Nothing was written; close the log and run kafkalog "
                "verify",
                path=self.path,
                position=self.size_bytes,
            )


def start_writeback(descriptor: int, position: int, size_bytes: int) -> None:
    """Ask the system to start writing these bytes of a file to the disk. Only Linux does so."""
    if _sync_file_range is not None:
        start, size = ctypes.c_int64(position), ctypes.c_int64(size_bytes)
        _sync_file_range(descriptor, start, size, _SYNC_FILE_RANGE_WRITE)


def copy_range(source: str, position: int, size_bytes: int, descriptor: int, at: int) -> int:
    """Copy bytes of the file `source` into the open file `descriptor`, to position `at`.

    The system copies them if it can; it may even share the blocks of the file. Otherwise they are read and
    written.

    Returns `size_bytes`. Raises OSError, also if `source` ends before the last of these bytes.
    """
    done, within_kernel = 0, hasattr(os, "copy_file_range")
    origin = open_file(source, os.O_RDONLY, follow_link=True)
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
    """Replace the file `path` by one with this content. A crash leaves either the old file or the new one.

    The new file is written as `<name>.tmp` and renamed, as brokers write checkpoints (Kafka: CheckpointFile).

    Args:
        flush: flush the file to disk before it is renamed. Otherwise a crash may leave a part of it: flush
            the file and its directory before you rely on it.
    """
    replace_files({path: data}, flush=flush)


def replace_files(contents: Mapping[str | Path, bytes], *, flush: bool = True) -> None:
    """Replace several files as `replace_file` does. A crash leaves the old or the new file of each path.

    All files are flushed at the same time.
    """
    temporary = {path: f"{path}.tmp" for path in contents}
    for name in temporary.values():
        check_regular_file(name)
    try:
        for path, data in contents.items():
            with path_in_errors(path):
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
def open_to_overwrite(path: str) -> Iterator[int]:
    """Open an existing file to overwrite some of its bytes; yield its descriptor."""
    descriptor = open_file(path, os.O_WRONLY)
    try:
        with path_in_errors(path):
            check_only_link(path, descriptor)
            yield descriptor
    finally:
        os.close(descriptor)


def write_file(path: str, data: Buffer) -> None:
    """Write a file with this content, or overwrite it. A crash may leave a part of the content."""
    file = AppendFile(path)
    try:
        file.append(data)
    finally:
        file.close()


@contextlib.contextmanager
def path_in_errors(path: str | Path) -> Iterator[None]:
    """Add this path to an OSError that has none, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        _add_path(error, path)
        raise


def _add_path(error: BaseException, path: str | Path) -> None:
    if isinstance(error, OSError) and error.filename is None:
        error.filename = str(path)


def flush_files(paths: Sequence[str | Path]) -> None:
    """Flush files to disk, several at the same time."""
    if len(paths) == 1:
        flush_file(paths[0])
    elif paths:
        with ThreadPoolExecutor(min(_FLUSH_THREADS, len(paths))) as pool:
            for flush in [submit(pool, partial(flush_file, path)) for path in paths]:
                flush.result()


def flush_file(path: str | Path) -> None:
    """Flush a file or directory to disk."""
    if os.path.isdir(path):  # noqa: PTH112
        fsync_directory(path)
        return
    descriptor = open_file(path, os.O_RDONLY, follow_link=True)
    try:
        with path_in_errors(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_directory(path: str | Path) -> None:
    """Flush a directory to disk, so that new, renamed and removed files survive a crash."""
    descriptor = open_descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with path_in_errors(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_file(path: str | Path) -> None:
    """Remove a file if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108


def remove_tree(path: Path) -> None:
    """Remove a folder with all its content, or a link or file in its place. Errors are ignored."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:  # rmtree would wait for a named pipe
        with contextlib.suppress(OSError):
            path.unlink()


def remove_folder(folder: Path) -> None:
    """Remove a folder with all its content if it exists. Of a link, remove the link.

    The folder is renamed first. So another process that is creating a file in it fails, or its file is
    removed too.
    """
    renamed = removal_name(folder)
    remove_tree(renamed)
    with contextlib.suppress(OSError):
        folder.rename(renamed)
    remove_tree(renamed)


def removal_name(folder: Path) -> Path:
    """Return the path that a folder has while it is removed."""
    return folder.with_name(f"{folder.name}-gone")
