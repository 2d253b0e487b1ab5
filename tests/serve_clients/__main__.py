from tests.serve_clients import make

make()
