"""Shared by the contracts: importing a plug-in's module must not import a framework."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

FRAMEWORKS: Final = ("torch", "tensorflow", "jax", "keras", "onnxruntime", "openvino", "cv2", "mxnet", "transformers")
_CODE: Final = """
import importlib, json, sys
modules, frameworks = json.loads(sys.argv[1])
loaded = []
for module in modules:
    importlib.import_module(module)
    loaded.append([name for name in frameworks if name in sys.modules])
print(json.dumps(loaded))
"""
_known: dict[str, list[str]] = {}  # by module: what it imported


def frameworks_imported_by(module: str) -> list[str]:
    """Which frameworks a fresh Python has loaded once it has imported the module."""
    if module not in _known:
        import_together([module])
    return _known[module]


def import_together(modules: Sequence[str]) -> None:
    """Ask for several modules at once, in one Python that imports one after another. As long as none of them loads a
    framework, none does alone; from the first that does, each is asked in a Python of its own."""
    question = json.dumps([list(modules), FRAMEWORKS])
    done = subprocess.run([sys.executable, "-c", _CODE, question], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    loaded = dict(zip(modules, answer, strict=True))
    _known.update({module: names for module, names in loaded.items() if not names or module == modules[0]})
