"""Reports: the run folder, the summary, and one page that says what it all means."""
