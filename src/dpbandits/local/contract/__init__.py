"""The public contract between clients and server, and the messages that they exchange."""
