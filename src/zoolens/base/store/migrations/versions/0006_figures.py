"""The numbers of all observations of a run in one text, from which the index of queries is made."""

from __future__ import annotations

import logging

import sqlalchemy as sa
from alembic import op

# Whoever changes the text of figures writes a migration that makes all of them anew.
from zoolens.base.store.figures import keep_figures

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

BATCH = 1_000  # runs
TOLD = 20  # batches

logger = logging.getLogger("zoolens.store")


def upgrade() -> None:
    op.create_table(
        "figures",
        sa.Column("run_id", sa.Text, sa.ForeignKey("runs.id"), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("checksum", sa.BigInteger),
    )
    bind = op.get_bind()
    ids = bind.execute(sa.text("SELECT id FROM runs ORDER BY seq")).scalars().all()
    for start in range(0, len(ids), BATCH):
        keep_figures(bind, ids[start : start + BATCH])
        if start and start % (TOLD * BATCH) == 0:
            done, all_ = f"{start:,}", f"{len(ids):,}"
            logger.warning("The store is brought to a new version: figures of %s of %s runs.", done, all_)
