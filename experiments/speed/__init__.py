"""Seconds and memory: of whole commands, of training, of solving test sets, and of kernels."""
