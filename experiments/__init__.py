"""What makes the tables, figures and pages of results from a checkout: `python -m experiments --help`."""
