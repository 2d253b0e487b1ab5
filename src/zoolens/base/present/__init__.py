"""One way to show what the other rooms found: tables, figures in words, charts and pages."""
