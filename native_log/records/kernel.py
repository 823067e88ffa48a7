"""The functions and classes of the compiled kernel that need no Python code of their own.

They have the interface of `native_log.records.reference`. See also `kernel_writing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from native_log import _kernel as kernel
else:
    from native_log.records.loading import load_kernel

    kernel = load_kernel()

scan = kernel.scan
scan_headers = kernel.scan_headers
check_file = kernel.check_file
divide_file = kernel.divide_file
decode = kernel.decode
decode_file = kernel.decode_file
find_batch = kernel.find_batch
list_logs = kernel.list_logs
format_batches = kernel.format_batches
rewrite = kernel.rewrite
rewrite_file = kernel.rewrite_file
merge = kernel.merge
Conditions = kernel.Conditions
DamageSkipper = kernel.DamageSkipper
BatchHeaders = kernel.BatchHeaders
KeyBuckets = kernel.KeyBuckets
OffsetMap = kernel.OffsetMap
OpenBatches = kernel.OpenBatches
Survivors = kernel.Survivors
AppendedRecord = kernel.AppendedRecord
BatchBuilder = kernel.BatchBuilder
partition_of_key = kernel.partition_of_key
