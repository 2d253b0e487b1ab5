"""Jobs that commands gave to other machines, the drivers that gave them out, and passes of recurring plans.

They are records of operation, no facts about models: rows change, and may be removed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drivers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("lease", sa.Double, nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("beat", sa.Double, nullable=False),
        sa.Column("ended", sa.Double),
        sa.Column("cancelled_by", sa.Text),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("driver", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("runtimes", sa.JSON, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.JSON, nullable=False),
        sa.Column("given", sa.Double, nullable=False),
        sa.Column("started", sa.Double),
        sa.Column("ended", sa.Double),
        sa.Column("runs", sa.JSON, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("log", sa.JSON, nullable=False),
        sa.Column("cancelled_by", sa.Text),
    )
    op.create_index("jobs_by_driver", "jobs", ["driver"])
    op.create_index("jobs_by_time", "jobs", ["given"])
    op.create_index("jobs_by_model", "jobs", ["model"])
    op.create_table(
        "passes",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("ended", sa.Double),
        sa.Column("content", sa.JSON, nullable=False),
    )
    op.create_index("passes_by_plan", "passes", ["plan", "started"])
