"""Pictures and the page that holds them: arrays and plain records in, files out."""
