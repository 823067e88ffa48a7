"""What `import native_log` gives."""

from __future__ import annotations

import subprocess
import sys

import native_log
from native_log import errors


def test_every_public_name_is_there() -> None:
    assert set(native_log.__all__) <= set(dir(native_log))
    for name in native_log.__all__:
        assert getattr(native_log, name) is not None


def test_every_error_is_public() -> None:
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert kinds <= set(native_log.__all__)


def test_an_error_does_not_cost_arrow() -> None:
    code = "import sys, native_log; native_log.KafkaLogError; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
