"""Rules that turn counted reports into a policy."""
