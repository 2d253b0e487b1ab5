"""Text without credentials, for logs that are kept: an error of a library may repeat the address that it was given."""

from __future__ import annotations

import os
import re
from typing import Final

_HIDDEN: Final = "***"
_IN_URL: Final = re.compile(r"(?<=://)[^\s/@'\"]*:[^\s@'\"]*@")  # user:password@, also where a password holds a slash
# A name that tells a credential, then = or :, then its value; also as a header, as JSON and in a URL's query.
_NAMED: Final = re.compile(
    r"(?i)([\w-]*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential|signature|authorization)"
    r"[\w-]*[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic)\s+)?)([^\s\"'&;,]{3,})"
)
_SECRET_VARIABLE: Final = re.compile(r"(?i)password|passwd|secret|token|api_?key|access_?key|credential")
_SHORTEST: Final = 6  # characters of a variable's value that is hidden: a shorter one would blot out common words


def scrubbed(text: str) -> str:
    """The text without passwords in addresses, values of names such as `token=`, and what this process has in variables
    with such names."""
    text = _IN_URL.sub(f"{_HIDDEN}@", text)
    text = _NAMED.sub(rf"\1{_HIDDEN}", text)
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and value in text and _SECRET_VARIABLE.search(name):
            text = text.replace(value, _HIDDEN)
    return text
