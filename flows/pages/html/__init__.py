"""Pages of HTML that need no network, and the plots on them."""
