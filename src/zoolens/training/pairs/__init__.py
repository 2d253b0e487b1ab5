"""The trainer of pairs: two live sides, one loop, lockstep and explanation; `crosstrain` and `port` open it."""
