"""Which machines offer to run work: agents, what each has, and which of them meet a demand."""
