"""Why two sides train apart: each differing semantic switched in a design, its share of the gap, and the proof."""
