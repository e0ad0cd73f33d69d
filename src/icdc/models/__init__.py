"""Trained models: what they compute, the files and cards they come with, and those that ship."""
