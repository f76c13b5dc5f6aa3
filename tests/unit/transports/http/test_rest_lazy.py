"""A daemon without HTTP pays for none of it."""

from __future__ import annotations

import subprocess
import sys

WEB = ("fastapi", "starlette", "uvicorn", "limits", "prometheus_client", "pydantic")


def test_the_daemon_imports_no_web_framework() -> None:
    code = f"import sys, infinite_memory.daemon.server; print([one for one in {WEB!r} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
