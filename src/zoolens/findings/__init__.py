"""What is found out about models: measured, compared, traced, audited, searched."""
