"""Code for cpu."""
