"""Who may ask, and what a browser may do with the answer.

The explorer shows what strangers wrote, and it can start jobs. So a page of another site must not be able to use it
through the user's browser (by requests of its own, or by letting its name point to this machine), and no text that is
shown may become a script. A request is refused before anything of it is read.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

from zoolens.faces.serving.options import names_this_machine
from zoolens.faces.ui.endpoint import PREFIX, RequestError
from zoolens.faces.ui.settings import Settings

COOKIE: Final = "zoolens_token"
TOKEN_PARAMETER: Final = "token"  # noqa: S105 - of the address with which a browser is let in once
_SAFE: Final = frozenset({"GET", "HEAD"})
_SCHEME: Final = "bearer "

POLICY: Final = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:", "connect-src 'self'",
    "font-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
))  # fmt: skip
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def check_request(settings: Settings, method: str, path: str, headers: Mapping[str, str]) -> None:
    """Refuse a request that does not come from this machine's programs, from our own pages or with the token.

    Without a token, a name other than localhost in `Host` may be anybody's that points here, and is refused. Another
    site's page betrays itself by `Origin` or `Sec-Fetch-Site`; it may open our page, and nothing else.
    """
    if settings.token is None and not names_this_machine(headers.get("host", "")):
        raise RequestError(
            "This address is not one of this machine.", status=421, hint="Open the explorer as localhost."
        )
    if _is_foreign(headers) and (method not in _SAFE or path.startswith(PREFIX)):
        raise RequestError("Pages of other sites may not use the explorer.", status=403)
    if method not in _SAFE and headers.get("origin") is None and "sec-fetch-site" in headers:
        raise RequestError("A browser must say which page asks for a change.", status=403)
    if settings.token is not None and not is_known(settings.token, headers):
        raise RequestError(
            "This explorer requires its token.",
            status=401,
            hint=f"Open it once as …/?{TOKEN_PARAMETER}=TOKEN, or send the header 'Authorization: Bearer TOKEN'.",
        )


def _is_foreign(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of another origin asks."""
    origin, host = headers.get("origin"), headers.get("host", "").lower()
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return True
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def is_known(token: str, headers: Mapping[str, str]) -> bool:
    """Whether a request carries the token, in its header or in the cookie that a browser was given."""
    given = headers.get("authorization", "")
    if given[: len(_SCHEME)].lower() == _SCHEME:
        return is_token(token, given[len(_SCHEME) :].strip())
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return False
    return cookie is not None and is_token(token, cookie.value)


def is_token(token: str, offered: str) -> bool:
    """Whether both are the same; it takes the same time whatever is offered."""
    return secrets.compare_digest(offered.encode("utf-8", "replace"), token.encode())
