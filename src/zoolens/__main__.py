"""`python -m zoolens` is `zoolens`."""

from zoolens.faces.cli.main import main

main()
