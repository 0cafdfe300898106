"""What commands print: tables, sentences, JSON."""
