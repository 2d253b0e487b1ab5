"""One recipe trained by several frameworks: networks, data, trainers, their processes, and how they differ."""
