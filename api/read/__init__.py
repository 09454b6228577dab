"""Where the web reads: answers of workflows, held for a moment, and what is made of them by filters and orders."""
