"""Parts of the measurement of hooks: sessions made of conversations, and what is counted of them."""
