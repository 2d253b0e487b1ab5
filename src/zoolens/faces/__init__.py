"""How people and programs reach all of it: the server, load, notebooks, the explorer and the command line."""
