"""The version of this package; `zoolens.__version__` for users.

It lies at the bottom of the house, so that whoever writes it into a record need not import the package above it.
"""

__version__ = "0.1.0"
