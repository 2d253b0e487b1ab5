"""Property tests draw the same examples every time, so that a passing change passes again;
`pytest --hypothesis-profile search` draws new ones.

Ctrl-C is not ignored, whatever the shell that started us does (one behind `&` or `trap '' INT`): processes that a test
starts and interrupts would inherit that."""

import signal

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.register_profile("search", print_blob=True)
settings.load_profile("fixed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
