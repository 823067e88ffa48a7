"""Open, read and write data files; no other package does. `opening` opens regular files and nothing else,
`local` reads them, `faulty` reads them from failing disks, `writing` writes them."""

from __future__ import annotations

from native_log.storage.faulty import Fault, FaultyFile
from native_log.storage.local import (
    CHUNK_BYTES,
    TICK_NS,
    DataFile,
    FileVersion,
    Window,
    file_version,
    is_directory,
    is_file,
    path_version,
    read_file,
)

__all__ = [
    "CHUNK_BYTES",
    "TICK_NS",
    "DataFile",
    "Fault",
    "FaultyFile",
    "FileVersion",
    "Window",
    "file_version",
    "is_directory",
    "is_file",
    "path_version",
    "read_file",
]
