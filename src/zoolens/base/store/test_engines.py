"""What the engine of a store tells nobody."""

import contextlib

import pytest

from zoolens.base.store.engines import make_engine
from zoolens.base.store.target import Target


@pytest.mark.parametrize(("error", "logged"), [(KeyboardInterrupt, 0), (ValueError, 1)])
def test_an_interrupt_is_not_logged_with_a_traceback(tmp_path, caplog, monkeypatch, error, logged):
    def fail(connection):
        raise error

    engine = make_engine(Target(tmp_path / "store.sqlite", None), 1.0)
    connection = engine.raw_connection()
    monkeypatch.setattr(engine.dialect, "do_rollback", fail)
    with contextlib.suppress(error):
        connection.close()
    assert len([record for record in caplog.records if record.name.startswith("sqlalchemy.pool")]) == logged
