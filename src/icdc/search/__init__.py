"""Classical search beside the network: constructions, local search, prices and proofs, without torch."""
