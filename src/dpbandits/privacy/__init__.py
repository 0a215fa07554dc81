"""What is promised, and how noise keeps it."""
