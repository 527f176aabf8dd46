"""What the way in over HTTP costs: `./dev bench http`."""
