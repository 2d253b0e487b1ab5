"""Jobs: commands of zoolens that the browser starts. Each is a process of its own, which no closed tab ends."""
