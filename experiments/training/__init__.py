"""Training many runs side by side on one device, and what became of them."""
