from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest


@pytest.mark.slow  # every test of torchvision imports it so; this one imports it in a process of its own
@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")
def test_torchvision_imports_beside_any_build_of_torch():
    code = (
        "from zoolens.inventory.frameworks.torchvision_shim import import_torchvision;"
        "first, second = (import_torchvision(with_compiler=False) for _ in 'ab'); assert first is second;"
        "import torch; first.models.squeezenet1_1(weights=None).eval()(torch.zeros(1, 3, 64, 64))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
