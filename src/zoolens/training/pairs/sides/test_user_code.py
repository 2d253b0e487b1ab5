"""What is said when the user's own code goes wrong."""

import sys

import pytest

from zoolens.base.errors import ModelError
from zoolens.training.pairs.networks.recognition import recognised
from zoolens.training.pairs.sides.user_code import call_user_function


@pytest.fixture(autouse=True)
def _own_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("zoolens_user_code", "port_module_of_mine", "helper_of_mine"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def net():\n    return 1 / 0\n", r"mine\.py:2 raises ZeroDivisionError: division by zero"),
        ("import no_such_module\n", r"mine\.py:1 raises ModuleNotFoundError: No module named 'no_such_module'"),
        ("def net(:\n", r"mine\.py:1 raises SyntaxError"),
        ("import sys\ndef net():\n    sys.exit(3)\n", r"mine\.py:3 ends its process with 3"),
        ("class Odd(BaseException): pass\ndef net():\n    raise Odd\n", r"mine\.py:3 raises Odd"),
        ("def other(): pass\n", r"mine\.py has no function 'net'\. It has other\."),
        ("net = 3\n", r"net in mine\.py is no function"),
        ("def net(width): pass\n", r"net in mine\.py needs arguments: width"),
        ("def net():\n    print('hello')\n    return 'text'\n", r"returned an object of builtins\.str"),
    ],
)
def test_code_that_goes_wrong_is_named_by_its_line(tmp_path, code, words):
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(ModelError, match=words):
        recognised(call_user_function(str(tmp_path / "mine.py"), "net"), [(4,)], ["float"], "net")


def test_modules(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match="There is no module 'no_such_module'"):
        call_user_function("no_such_module", "net")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "port_module_of_mine.py").write_text(
        "import helper_of_mine\n\ndef net():\n    return helper_of_mine.NAME\n"
    )
    (tmp_path / "helper_of_mine.py").write_text("NAME = 'found'\n")
    assert call_user_function("port_module_of_mine", "net") == "found"
    assert call_user_function(str(tmp_path / "port_module_of_mine.py"), "net") == "found"
