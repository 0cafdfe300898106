"""The pages in a real browser: what no test of their text can see."""
