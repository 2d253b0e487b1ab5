"""Small rewrites from what a source says to the form in which equal networks look equal; `canonical` orders them."""
