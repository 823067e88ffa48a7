"""Open, read and write data files; no other package does. `files` says what reading logs needs of a storage,
`local` is the local file system, `opening` opens regular files and nothing else, `chunked_file` makes files
from others, `faulty` reads from failing disks, `writing` writes local files."""

from __future__ import annotations

from native_log.storage.chunked_file import ChunkedFile
from native_log.storage.faulty import Fault, FaultyFile
from native_log.storage.files import FileEntry, Folder, Storage, folder_of, is_directory, is_file
from native_log.storage.local import (
    CHUNK_BYTES,
    LOCAL,
    TICK_NS,
    DataFile,
    FileVersion,
    Window,
    file_version,
    path_version,
    read_file,
)

__all__ = [
    "CHUNK_BYTES",
    "LOCAL",
    "TICK_NS",
    "ChunkedFile",
    "DataFile",
    "Fault",
    "FaultyFile",
    "FileEntry",
    "FileVersion",
    "Folder",
    "Storage",
    "Window",
    "file_version",
    "folder_of",
    "is_directory",
    "is_file",
    "path_version",
    "read_file",
]
