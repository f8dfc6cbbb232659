"""From recorded sessions to counts: find them, judge them, keep one small record of each, add them up."""
