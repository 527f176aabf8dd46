"""The members of groups that speak HTTP: their seats, what they hold, and their long polls."""
