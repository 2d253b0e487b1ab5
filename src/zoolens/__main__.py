"""`python -m zoolens` is `zoolens`."""

from zoolens.cli.main import main

main()
