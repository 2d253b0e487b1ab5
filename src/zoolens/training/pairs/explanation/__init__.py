"""A gap in accuracy shared out among the settings that make it, and the verification with fresh seeds."""
