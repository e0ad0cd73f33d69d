"""Learned competitors: other networks and other training, on the same problems and by the same solver protocol."""
