"""The service under load, with faults, and its page in a browser."""
