"""From the bytes of a sound file to a model's features; steps are named after the library that defines them."""
