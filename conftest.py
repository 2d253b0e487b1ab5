"""Property tests draw the same examples every time, so that a passing change passes again;
`pytest --hypothesis-profile search` draws new ones."""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.register_profile("search", print_blob=True)
settings.load_profile("fixed")
