"""Classical search, without torch: constructions, local search, bounds and proofs for tours and schedules."""
