"""Many trials: plans, search, the store, seed noise, explanations and reports. It lies above `training`."""
