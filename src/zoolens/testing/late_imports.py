"""Shared by the contracts: importing a plug-in's module must not import a framework."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Final

FRAMEWORKS: Final = ("torch", "tensorflow", "jax", "keras", "onnxruntime", "openvino", "cv2", "mxnet", "transformers")


@cache
def frameworks_imported_by(module: str) -> list[str]:
    """Which frameworks a fresh Python has loaded once it has imported the module."""
    code = f"import sys, {module}; print(*(name for name in {FRAMEWORKS!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()
