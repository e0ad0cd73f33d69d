"""The diffusion itself: the binary process, and the sampler that runs it backwards."""
