"""Published methods and studies, and readers of historic formats: a newcomer may leave this room unread.

The core enters it only through entry points (see `pyproject.toml`), never by an import.
"""
