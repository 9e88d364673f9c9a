"""Code for sim."""
