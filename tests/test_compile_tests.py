"""What is compiled before `make test` is what pytest and Python look for."""

import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from scripts.compile_tests import compile_file


def test_pytest_takes_the_asserts_that_were_rewritten(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    test, log = tmp_path / "test_one.py", tmp_path / "log"
    test.write_text("def test_one():\n    assert 1 + 1 == 2\n")
    compile_file(test)
    (compiled,) = (tmp_path / "__pycache__").iterdir()
    written = compiled.stat()
    compile_file(test)
    assert compiled.stat() == written
    command = [sys.executable, "-m", "pytest", "--disable-plugin-autoload", f"--debug={log}", test]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert f"found cached rewritten pyc for {test}" in log.read_text()
    assert list((tmp_path / "__pycache__").iterdir()) == [compiled]


def test_a_module_is_compiled_as_python_does(tmp_path):
    module = tmp_path / "module.py"
    module.write_text("ONE = 1\n")
    compile_file(module)
    assert Path(cache_from_source(str(module))).exists()
