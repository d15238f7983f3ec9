"""The pages: each view finds what is the visitor's, and shows it or does one thing to it."""
