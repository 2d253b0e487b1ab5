"""Language models behind servers that speak OpenAI's HTTP interface: llama.cpp, vLLM, and services that rent models."""
