"""What happens between a user's Python call and the function: a late import, a check of arguments, progress."""
