"""Training of live networks: one step per framework, the settings that decide about it, and their switches."""
