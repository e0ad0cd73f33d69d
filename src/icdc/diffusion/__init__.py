"""The diffusion itself: the binary process, feasible decoding, and the sampler that joins them."""
