"""Where observations live: one store over SQLite or PostgreSQL, bulk facts in Parquet beside it."""
