"""Agents: machines that offer to run work.

In PostgreSQL every row belongs to the role that inserted it. Others may read it, and only its role or the owner of the
table may change or remove it: an agent needs no right to anything else in the store but reading.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    op.create_table(
        "agents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.Column("doing", sa.JSON, nullable=False),
        sa.Column("lease", sa.Double, nullable=False),
        sa.Column("started", sa.Double, nullable=False),
        sa.Column("beat", sa.Double, nullable=False),
        sa.Column("owner", sa.Text, nullable=False, server_default=sa.text("CURRENT_USER" if postgresql else "''")),
    )
    if postgresql:
        op.execute("ALTER TABLE agents ENABLE ROW LEVEL SECURITY")
        op.execute("CREATE POLICY agents_are_seen ON agents FOR SELECT USING (true)")
        op.execute("CREATE POLICY agents_are_their_own ON agents USING (owner = CURRENT_USER)")
