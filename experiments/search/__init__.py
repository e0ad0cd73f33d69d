"""Classical search and the default solver against time, against rivals, and the references of the standard sets."""
