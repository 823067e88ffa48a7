"""Open, read and write data files; no other package does.

`files` says what reading logs needs of a storage, `local` is the local file system, `remote` is the storage
of URLs, and `urls` makes paths of them. `wrapped` passes calls on to another storage. An `anonymous_file`
holds bytes that are not on a disk: a `ranged_file` reads ahead, a `chunked_file` is made from others. A
`byte_cache` remembers bytes. `faulty` reads from failing disks.

`writing` writes local files. `opening` opens regular files and nothing else, `descriptors` keeps within the
limit of open files, `ownership` gives new files to the owner of their directory, and `hard_links` protects
files that snapshots share.
"""

from __future__ import annotations

from native_log.storage.byte_cache import ByteCache
from native_log.storage.chunked_file import ChunkedFile
from native_log.storage.faulty import Fault, FaultyFile
from native_log.storage.files import (
    FileEntry,
    Folder,
    KnownFile,
    ListedFile,
    Storage,
    folder_of,
    is_directory,
    is_file,
    listed_file,
    listed_files,
)
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
from native_log.storage.remote.credentials import (
    CLIENT_OPTIONS,
    CarriedSecrets,
    StorageOptions,
    StorageOptionsLike,
)
from native_log.storage.remote.default_file_system import with_name_node
from native_log.storage.remote.url_storage import Storages, UrlStorage, storage_of
from native_log.storage.urls import (
    SCHEMES,
    UrlPath,
    has_urls,
    path_of,
    scheme_of,
    url_path,
    without_credentials,
)
from native_log.storage.wrapped import WrappedStorage

__all__ = [
    "CHUNK_BYTES",
    "CLIENT_OPTIONS",
    "LOCAL",
    "SCHEMES",
    "TICK_NS",
    "ByteCache",
    "CarriedSecrets",
    "ChunkedFile",
    "DataFile",
    "Fault",
    "FaultyFile",
    "FileEntry",
    "FileVersion",
    "Folder",
    "KnownFile",
    "ListedFile",
    "Storage",
    "StorageOptions",
    "StorageOptionsLike",
    "Storages",
    "UrlPath",
    "UrlStorage",
    "Window",
    "WrappedStorage",
    "file_version",
    "folder_of",
    "has_urls",
    "is_directory",
    "is_file",
    "listed_file",
    "listed_files",
    "path_of",
    "path_version",
    "read_file",
    "scheme_of",
    "storage_of",
    "url_path",
    "with_name_node",
    "without_credentials",
]
