"""What this repository claims: the trained suite, its report, and the tables of README and the pages."""
