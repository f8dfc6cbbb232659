"""What a panel says, to people: `terminal.show` and `page.text`. Both are made of `Analysis.plain()` alone."""
