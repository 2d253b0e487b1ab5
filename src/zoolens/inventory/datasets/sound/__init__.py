"""Sound files: decoded natively (WAV) or by libsndfile, and found in folders with labels or times of activity."""
