"""What device and server agree on, and all that passes between them."""
