"""Code for nvidia."""
