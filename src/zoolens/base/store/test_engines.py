"""What the engine of a store tells nobody."""

import contextlib

import pytest
from sqlalchemy import literal, select

from zoolens.base.store.engines import make_engine
from zoolens.base.store.target import Target


def test_stores_of_a_process_share_the_statements_that_were_made(tmp_path):
    made = []
    for name in ("one", "two"):
        engine = make_engine(Target(tmp_path / f"{name}.sqlite", None), 1.0)
        with engine.connect() as connection:
            made.append(connection.execute(select(literal(1))).context.compiled)
    assert made[0] is made[1]


@pytest.mark.parametrize(("error", "logged"), [(KeyboardInterrupt, 0), (ValueError, 1)])
def test_an_interrupt_is_not_logged_with_a_traceback(tmp_path, caplog, monkeypatch, error, logged):
    def fail(dialect, connection):
        raise error

    engine = make_engine(Target(tmp_path / "store.sqlite", None), 1.0)
    connection = engine.raw_connection()
    monkeypatch.setattr(type(engine.dialect), "do_rollback", fail)
    with contextlib.suppress(error):
        connection.close()
    assert len([record for record in caplog.records if record.name.startswith("sqlalchemy.pool")]) == logged
