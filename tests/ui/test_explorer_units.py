"""The explorer's own linter, types and unit tests, where node and its packages are here: `make ui-check` gets them."""

import shutil
import subprocess
from pathlib import Path

import pytest

EXPLORER = Path(__file__).parents[2] / "explorer"
INSTALLED = EXPLORER / "node_modules" / "vitest" / "package.json"

if shutil.which("npm") is None:
    pytest.skip("NODE IS NOT HERE: the explorer's linter and unit tests are not run", allow_module_level=True)
if not INSTALLED.exists():
    pytest.skip("THE EXPLORER'S PACKAGES ARE NOT INSTALLED: run `make ui-check` once", allow_module_level=True)


@pytest.mark.parametrize("script", ["lint", "check", "test"])
def test_the_explorer_passes_its_own(script):
    done = subprocess.run(["npm", "run", script], cwd=EXPLORER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
