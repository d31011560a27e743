"""Workers: how they come to be, how they are spoken to, what runs on them."""
