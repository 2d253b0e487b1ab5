"""Alembic's entry: runs the migrations inside the transaction, and under the lock, that `opening.py` holds."""

from alembic import context

from zoolens.base.store.schema import metadata
from zoolens.base.store.state import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # SQLite's too, since we begin transactions ourselves: a killed migration leaves no trace
)
with context.begin_transaction():
    context.run_migrations()
