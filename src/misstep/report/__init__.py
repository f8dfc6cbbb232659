"""Terminal and HTML views."""
