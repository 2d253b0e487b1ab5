"""The query language: tokens, parsers, the syntax tree, and the way back to text."""
