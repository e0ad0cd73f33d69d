"""The tables and figures of the paper: rows, measuring them, comparing them, and the pages they are shown on."""
