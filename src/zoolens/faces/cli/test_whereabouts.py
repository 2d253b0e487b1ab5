"""`zoolens` without arguments."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from zoolens.base.store.glance import glance
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.testing.store_records import begin

SLOW_TO_IMPORT = ("sqlalchemy", "numpy", "pydantic", "pyarrow", "rich", "yaml")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOOLENS_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed():
    done = CliRunner().invoke(cli, [])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_without_a_store_it_names_where_it_will_be_and_makes_none(home):
    text = printed()
    assert "none yet" in text
    assert str(home / "home" / "data" / "store.sqlite") in text
    assert not (home / "home").exists()
    assert text.count("\n  zoolens ") == 3


def test_the_newest_runs_are_listed_first(home):
    with open_store() as store:
        begin(store, "zoo:first@1.0.0")
    assert "with 1 run.\n" in printed()
    assert "zoolens runs show last" in printed()
    with open_store() as store:
        begin(store, "zoo:second@1.0.0")
    text = printed()
    assert "with 2 runs.\n" in text
    assert text.index("zoo:second in onnxruntime on digits") < text.index("zoo:first in onnxruntime on digits")
    assert "zoolens compare last~1 last" in text


def test_models_in_the_working_directory_lead_to_init(home):
    (home / "a.onnx").touch()
    assert "zoolens init    which of the 1 model file here" in printed()


def test_a_database_is_not_connected_to_and_its_password_not_shown(home, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE", "postgresql://ada:secret@nowhere.invalid/zoolens")
    text = printed()
    assert "the database that $ZOOLENS_STORE names" in text
    assert "secret" not in text


def test_a_file_that_is_no_store_is_left_alone(home):
    path = home / "home" / "data" / "store.sqlite"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database at all" * 100)
    assert glance(path, 3) is None
    assert str(path) in printed()


def test_it_imports_nothing_slow(home):
    code = (
        "import sys; from zoolens.faces.cli.main import cli; cli.main([], standalone_mode=False); "
        f"print([name for name in {SLOW_TO_IMPORT} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
