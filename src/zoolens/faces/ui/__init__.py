"""The explorer: one web application over one store, and the JSON API that it is made of."""
