"""Recurring plans: the same models on the same kinds of machine, pass after pass, and what changed in between."""
