"""llama.cpp, and the files that it reads."""
