"""Published methods that decide nothing here: a newcomer may leave this room unread.

The core enters it only through entry points (`zoolens.bounds` and `zoolens.twin_bounds`), never by an import.
"""
