"""Load onnxruntime with telemetry disabled.

Why: since 1.3x its Linux builds write usage records to ``~/.cache/Microsoft`` and try to send them to Microsoft. This program promises that
nothing leaves the machine, so telemetry is disabled before the library is loaded, and again through its API.
"""

from __future__ import annotations

import os
from types import ModuleType

SWITCH = "ORT_DISABLE_TELEMETRY"


def load_onnxruntime() -> ModuleType:
    """Import onnxruntime with its telemetry off.

    Raises:
        ImportError: it is not installed, or broken.
    """
    os.environ[SWITCH] = "1"
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    loaded: ModuleType = onnxruntime
    return loaded
