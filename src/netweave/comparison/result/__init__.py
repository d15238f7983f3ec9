"""The Comparison: a value that every face shows, its verdict, and its forms as text, JSON and page."""
